/* SPDX-License-Identifier: MIT */
/* The summary and the lines of progress that gpuq launch prints, for programs that use the launch API. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_dispatch_launch.h"
#include "support/check.h"

static const struct gd_launch_gpu gpu = {
	.size = sizeof(gpu), .gpu = 3, .files = 2, .audio_seconds = 60, .processing_seconds = 6, .share = 1};
static const struct gd_launch_failure failure = {.size = sizeof(failure), .file = "b\033.wav", .error = "no sound"};
static const struct gd_launch_gpu *const gpus[] = {&gpu};
static const struct gd_launch_failure *const failures[] = {&failure};

static const struct gd_launch_summary summary = {.size = sizeof(summary),
	.known = GD_KNOWN_RTF,
	.files_total = 4,
	.files_done = 2,
	.files_failed = 1,
	.files_left = 1,
	.audio_seconds = 60,
	.processing_seconds = 6,
	.wall_seconds = 45,
	.loading_seconds = 41,
	.rtf = 0.1,
	.speedup = 1.5,
	.num_gpus = 1,
	.gpus = gpus,
	.num_failures = 1,
	.failures = failures};

static char *text;
static size_t text_size;

static FILE *open_text(void)
{
	FILE *out = open_memstream(&text, &text_size);
	assert_non_null(out);
	return out;
}

static void test_summary_has_a_table_totals_and_failures(void **state)
{
	(void)state;
	FILE *out = open_text();
	assert_int_equal(gd_launch_print_summary(&summary, out), 0);
	fclose(out);
	check_contains(text, "GPU  FILES");
	check_contains(text,
		"2 of 4 files done, 1 failed, 1 left; 45s for 1m 00s of audio (RTF 0.1), loading 41s, speedup 1.50");
	check_contains(text, ": no sound\n");
	assert_null(strchr(text, '\033')); /* file names are escaped */
	free(text);
}

static void test_totals_show_skipped_inputs(void **state)
{
	(void)state;
	FILE *out = open_text();
	const struct gd_launch_summary s = {
		.size = sizeof(s), .files_total = 3, .files_done = 3, .wall_seconds = 2, .inputs_skipped = 4};
	assert_int_equal(gd_launch_print_summary(&s, out), 0);
	fclose(out);
	check_contains(text, "3 of 3 files done, 4 inputs skipped; 2");
	free(text);
}

static void test_progress_is_one_line(void **state)
{
	(void)state;
	struct gd_launch_progress p = {.size = sizeof(p),
		.summary = &summary,
		.known = GD_KNOWN_SECONDS | GD_KNOWN_ETA,
		.total_amount = 120,
		.done_amount = 60,
		.eta_seconds = 9};
	FILE *out = open_text();
	assert_int_equal(gd_launch_print_progress(&p, out), 0);
	fclose(out);
	assert_string_equal(
		text, " 50%  3 of 4 files, 1 failed, 1m 00s of 2m 00s audio, RTF 0.1, a few seconds to go\n");
	free(text);
}

static void test_struct_without_its_size_is_refused(void **state)
{
	(void)state;
	struct gd_launch_summary none = {0};
	assert_int_equal(gd_launch_print_summary(&none, stdout), -EINVAL);
	assert_int_equal(gd_launch_print_progress(&(struct gd_launch_progress){0}, stdout), -EINVAL);
}

static void test_output_that_cannot_be_written_is_reported(void **state)
{
	(void)state;
	FILE *full = fopen("/dev/full", "we");
	assert_non_null(full);
	setvbuf(full, NULL, _IONBF, 0);
	assert_int_equal(gd_launch_print_summary(&summary, full), -EIO);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary_has_a_table_totals_and_failures),
		cmocka_unit_test(test_totals_show_skipped_inputs),
		cmocka_unit_test(test_progress_is_one_line),
		cmocka_unit_test(test_struct_without_its_size_is_refused),
		cmocka_unit_test(test_output_that_cannot_be_written_is_reported),
	};
	return cmocka_run_group_tests_name("launch_print", tests, NULL, NULL);
}
