/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_dispatch_launch.h"

static struct gd_balancer *make(void)
{
	static const int gpus[] = {2, 0};
	struct gd_balancer *b = NULL;
	assert_int_equal(gd_balancer_create(gpus, 2, &b), 0);
	return b;
}

static void add(struct gd_balancer *b, int gpu, double audio, double processing, const char *error)
{
	char file[] = "some file", words[64] = "";
	snprintf(words, sizeof(words), "%s", error ? error : "");
	struct gd_file_result r = {
		.size = sizeof(r),
		.file = file,
		.error = error ? words : NULL,
		.gpu = gpu,
		.size_bytes = 100,
		.known = audio >= 0 ? GD_KNOWN_SECONDS : 0,
		.audio_seconds = audio >= 0 ? audio : 0,
		.processing_seconds = processing,
	};
	assert_int_equal(gd_balancer_add(b, &r), 0);
	/* Added names are copied. */
	memset(file, 'x', sizeof(file) - 1);
	memset(words, 'x', sizeof(words) - 1);
}

static void summarize(struct gd_balancer *b, struct gd_launch_summary *ret)
{
	gd_balancer_summary(b, ret, sizeof(*ret));
	assert_int_equal(ret->size, sizeof(*ret));
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_figures_are_in_range_before_the_first_result(void **state)
{
	(void)state;
	struct gd_balancer *b = make();
	struct gd_launch_summary s;
	summarize(b, &s);
	assert_int_equal(s.known, 0);
	assert_near(s.rtf, 0);
	assert_near(s.speedup, 0);
	assert_near(s.skew, 0);
	assert_near(s.progress, 1);
	gd_balancer_expect(b, 4, 1);
	summarize(b, &s);
	assert_near(s.progress, 0.25);
	assert_int_equal(s.files_total, 4);
	assert_int_equal(s.files_left, 3);
	assert_int_equal(s.num_gpus, 2);
	assert_int_equal(s.gpus[0]->gpu, 0);
	assert_int_equal(s.gpus[1]->gpu, 2);
	assert_near(s.gpus[0]->share, 0);
	gd_balancer_destroy(b);
	gd_balancer_destroy(NULL);
}

static void test_summary_adds_up_done_failed_and_skipped_files(void **state)
{
	(void)state;
	struct gd_balancer *b = make();
	struct gd_launch_summary s;
	gd_balancer_expect(b, 6, 1);
	add(b, 0, 100, 10, NULL);
	add(b, 0, 50, 5, NULL);
	add(b, 2, 50, 15, NULL);
	add(b, 2, -1, 99, "it broke");
	add(b, -1, -1, 0, "the file no longer exists");
	gd_balancer_stop_clock(b);
	summarize(b, &s);
	assert_int_equal(s.known, GD_KNOWN_RTF);
	assert_near(s.rtf, 30.0 / 200);
	assert_near(s.skew, 0);
	assert_near(s.progress, 1);
	assert_int_equal(s.files_total, 6);
	assert_int_equal(s.files_done, 3);
	assert_int_equal(s.files_failed, 2);
	assert_int_equal(s.files_skipped, 1);
	assert_int_equal(s.files_left, 0);
	assert_int_equal(s.bytes_done, 300);
	assert_near(s.audio_seconds, 200);
	assert_near(s.processing_seconds, 30);
	assert_true(s.wall_seconds > 0);
	assert_near(s.speedup, 30 / s.wall_seconds);
	assert_int_equal(s.gpus[0]->files, 2);
	assert_near(s.gpus[0]->share, 0.75);
	assert_int_equal(s.gpus[1]->failed, 1);
	assert_near(s.gpus[1]->processing_seconds, 15);
	assert_int_equal(s.num_failures, 2);
	assert_string_equal(s.failures[0]->file, "some file");
	assert_string_equal(s.failures[0]->error, "it broke");
	assert_string_equal(s.failures[1]->error, "the file no longer exists");
	double wall = s.wall_seconds;
	summarize(b, &s);
	assert_near(s.wall_seconds, wall);
	gd_balancer_destroy(b);
}

static void test_unannounced_gpu_is_added_and_counts_in_the_skew(void **state)
{
	(void)state;
	struct gd_balancer *b = make();
	struct gd_launch_summary s;
	add(b, 0, -1, 30, NULL);
	add(b, 1, -1, 10, NULL);
	add(b, 1, 10, 5, NULL);
	summarize(b, &s);
	assert_int_equal(s.num_gpus, 3);
	assert_int_equal(s.gpus[1]->gpu, 1);
	assert_near(s.skew, 30.0 * 3 / 45 - 1);
	/* The audio length of one file is unknown: shares by files. RTF only of files with known audio and time. */
	assert_near(s.gpus[1]->share, 2.0 / 3);
	assert_near(s.rtf, 0.5);
	assert_int_equal(s.files_total, 3);
	gd_balancer_destroy(b);
}

static void test_reset_forgets_all_but_the_gpus(void **state)
{
	(void)state;
	struct gd_balancer *b = make();
	struct gd_launch_summary s;
	gd_balancer_expect(b, 3, 1);
	add(b, 0, 1, 1, NULL);
	add(b, 0, 1, 1, "no");
	gd_balancer_stop_clock(b);
	gd_balancer_reset(b);
	summarize(b, &s);
	assert_int_equal(s.files_total + s.files_done + s.files_failed + s.num_failures, 0);
	assert_int_equal(s.num_gpus, 2);
	assert_int_equal(s.gpus[0]->files, 0);
	assert_near(s.rtf, 0);
	add(b, 0, 2, 1, NULL);
	summarize(b, &s);
	assert_near(s.rtf, 0.5);
	gd_balancer_destroy(b);
}

static void test_result_without_its_size_is_refused(void **state)
{
	(void)state;
	struct gd_balancer *b = make();
	struct gd_file_result r = {.file = "a", .gpu = 0};
	assert_int_equal(gd_balancer_add(b, &r), -EINVAL);
	struct gd_launch_summary s;
	summarize(b, &s);
	assert_int_equal(s.files_done, 0);
	gd_balancer_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures_are_in_range_before_the_first_result),
		cmocka_unit_test(test_summary_adds_up_done_failed_and_skipped_files),
		cmocka_unit_test(test_unannounced_gpu_is_added_and_counts_in_the_skew),
		cmocka_unit_test(test_reset_forgets_all_but_the_gpus),
		cmocka_unit_test(test_result_without_its_size_is_refused),
	};
	return cmocka_run_group_tests_name("launch_balancer", tests, NULL, NULL);
}
