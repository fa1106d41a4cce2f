/* SPDX-License-Identifier: MIT */
/* A launcher, with hooks of this program as workers: what is done, what fails, what is checked before. */
#include "launch_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/board.h"
#include "support/check.h"
#include "support/scratch.h"

static void test_all_files_are_done_once_and_then_no_more(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 10);
	scratch_put("in/bs.wav", 30);
	scratch_put("in/deep/c.wav", 20);
	struct gd_launch_options o = launch_rig_options();
	o.recursive = true;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 3});
	assert_true(s->audio_seconds == 7);
	assert_int_equal(s->bytes_done, 60);
	assert_int_equal(s->num_gpus, 2);
	assert_int_equal(s->gpus[0].files + s->gpus[1].files, 3);
	gd_launch_summary_free(s);
	assert_true(scratch_has("out/a") && scratch_has("out/bs") && scratch_has("out/deep/c"));

	launch_rig_run(&o, 0, (struct launch_counts){.skipped = 3});
	assert_int_equal(board->begun, 3);

	o.force = true;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 3});
	assert_int_equal(board->begun, 6);
}

static void test_changed_file_settings_worker_or_missing_result_is_done_again(void **state)
{
	(void)state;
	static const struct gd_setting large[] = {{"model_size", "large"}};
	scratch_put("in/a.wav", 10);
	scratch_put("in/b.wav", 10);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run_well(&o);
	/* Its size; its time; the settings; the worker; what it wrote is gone. */
	scratch_put("in/a.wav", 11);
	launch_rig_run(&o, 0, (struct launch_counts){.done = 1, .skipped = 1});
	struct timespec times[2] = {{1, 5}, {1, 5}};
	assert_int_equal(utimensat(AT_FDCWD, "in/b.wav", times, 0), 0);
	launch_rig_run(&o, 0, (struct launch_counts){.done = 1, .skipped = 1});
	o.settings = large;
	o.num_settings = 1;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 2});
	o.worker_name = "another";
	launch_rig_run(&o, 0, (struct launch_counts){.done = 2});
	assert_int_equal(rmdir("out/a"), 0);
	launch_rig_run(&o, 0, (struct launch_counts){.done = 1, .skipped = 1});
}

static void test_failures_are_told_and_tried_again_by_the_next_run(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("in/bf.wav", 1);
	scratch_put("in/ck.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	struct gd_launch_summary *s = launch_rig_launch(&o, 1);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 1, .failed = 2});
	assert_int_equal(s->num_failures, 2);
	for (size_t i = 0; i < 2; i++)
		if (strcmp(s->failures[i].file, "bf.wav") == 0)
			assert_string_equal(s->failures[i].error, "cannot do bf");
		else
			check_contains(s->failures[i].error, "SIGKILL");
	gd_launch_summary_free(s);
	launch_rig_run(&o, 1, (struct launch_counts){.failed = 2, .skipped = 1});
}

static void test_retries_save_a_file_whose_worker_crashed(void **state)
{
	(void)state;
	scratch_put("in/ao.wav", 1);
	scratch_put("in/b.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	o.retries = 1;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 2});
	assert_int_equal(launch_rig_begun('a'), 2);
}

static void test_file_that_hangs_is_ended_by_the_timeout(void **state)
{
	(void)state;
	scratch_put("in/ah.wav", 1);
	scratch_put("in/b.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	o.task_timeout_ms = 50;
	struct gd_launch_summary *s = launch_rig_launch(&o, 1);
	assert_true(s->files_failed >= 1); /* on a slow machine the other one, too */
	gd_launch_summary_free(s);
}

static void test_setup_that_fails_everywhere_ends_it_with_the_reason(void **state)
{
	(void)state;
	launch_rig_put('a', 't', "", 1);
	struct gd_launch_options o = launch_rig_options();
	o.worker = &launch_rig_broken_worker;
	struct gd_error err = {0};
	struct gd_launch_summary *s = NULL;
	assert_int_equal(gd_launch(&o, &s, &err), 1);
	check_contains(err.message, "no model in this test");
	launch_rig_assert_counts(s, (struct launch_counts){.left = 20});
	gd_launch_summary_free(s);
}

static void test_max_failures_ends_it_early(void **state)
{
	(void)state;
	launch_rig_put('a', 'z', "f", 1);
	struct gd_launch_options o = launch_rig_options();
	o.gpus = "sim:1";
	o.max_failures = 3;
	struct gd_error err = {0};
	struct gd_launch_summary *s = NULL;
	assert_int_equal(gd_launch(&o, &s, &err), 1);
	assert_true(s->files_failed >= 3 && s->files_left > 0);
	check_contains(err.message, "max-failures");
	gd_launch_summary_free(s);
}

static void test_folders_of_results_stay_with_their_files(void **state)
{
	(void)state;
	static const char *const patterns[] = {"*"};
	scratch_put("in/b.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	o.patterns = patterns;
	o.num_patterns = 1;
	launch_rig_run_well(&o);
	assert_true(scratch_has("out/b"));
	/* By name it would come before b.wav. */
	scratch_put("in/b.mp3", 1);
	launch_rig_run_well(&o);
	assert_true(scratch_has("out/b.mp3") && !scratch_has("out/b.wav"));
	assert_int_equal(board->begun, 2);
}

static void test_results_of_another_folder_are_not_replaced(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("other/a.wav", 2);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run_well(&o);
	o.input_dir = "other";
	struct gd_error err = {0};
	assert_int_equal(gd_launch(&o, NULL, &err), -EINVAL);
	check_contains(err.message, "--force");
	o.force = true;
	launch_rig_run_well(&o);
}

struct noted_mistakes {
	int count;
	char text[4096];
};

static void note(void *context, const struct gd_error *err)
{
	struct noted_mistakes *m = context;
	m->count++;
	strncat(m->text, err->message, sizeof(m->text) - strlen(m->text) - 2);
	strcat(m->text, "\n");
}

static void test_every_mistake_is_found_before_anything_starts(void **state)
{
	(void)state;
	static const char *const patterns[] = {"", "a/b"};
	scratch_put("file", 1);
	struct gd_launch_options o = launch_rig_options();
	o.input_dir = "nowhere";
	o.output_dir = "file/out";
	o.gpus = "rubbish";
	o.patterns = patterns;
	o.num_patterns = 2;
	o.plugin = "x.so";
	o.workers_per_gpu = -1;
	o.retries = -1;
	struct noted_mistakes m = {0};
	assert_int_equal(gd_launch_validate(&o, note, &m), 8);
	assert_int_equal(m.count, 8);
	static const char *const words[] = {"nowhere", "file", "rubbish", "a/b", "more than one worker", "retries"};
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		check_contains(m.text, words[i]);
	struct gd_error err = {0};
	struct gd_launcher *l = NULL;
	assert_int_equal(gd_launcher_create(&o, &l, &err), -ENOENT);
	check_contains(err.message, "nowhere");
	assert_null(l);
	o = launch_rig_options();
	o.size = 8;
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
	mkdir("in", 0755);
	o = launch_rig_options();
	o.worker = NULL;
	assert_int_equal(gd_launch_validate(&o, note, &m), 1);
	check_contains(m.text, "no worker was given");
	o = launch_rig_options();
	o.output_dir = "in/../in";
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 0);
	o.recursive = true;
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
	assert_false(scratch_has("out"));
}

static void test_found_files_and_earlier_speed_are_known_before_the_run(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 5);
	scratch_put("in/bs.wav", 5);
	struct gd_launch_options o = launch_rig_options();
	o.seconds = launch_rig_seconds;
	launch_rig_run_well(&o);
	scratch_put("in/c.wav", 9);
	struct gd_launcher *l = NULL;
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	assert_null(gd_launcher_files(l));
	assert_int_equal(gd_launcher_gpus(l)->count, 2);
	assert_int_equal(gd_launcher_find(l, NULL), 0);
	assert_int_equal(gd_launcher_files(l)->count, 3);
	size_t count;
	const struct gd_found *todo = gd_launcher_todo(l, &count);
	assert_int_equal(count, 1);
	assert_string_equal(todo[0].path, "c.wav");
	assert_true(gd_launcher_earlier_rtf(l) > 0);
	assert_true(gd_launcher_earlier_bytes_per_second(l) > 0);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s);
	launch_rig_assert_counts(&s, (struct launch_counts){.skipped = 2, .left = 1});
	gd_launcher_destroy(l);
	gd_launcher_destroy(NULL);
}

static void test_without_files_no_output_folder_is_made(void **state)
{
	(void)state;
	mkdir("in", 0755);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run(&o, 0, (struct launch_counts){0});
	assert_false(scratch_has("out"));
}

static void on_result_remove(void *context, const struct gd_file_result *r)
{
	(void)r;
	if (++*(int *)context == 1) {
		unlink("in/x.wav");
		unlink("in/y.wav");
	}
}

static void test_files_that_vanish_fail_alone(void **state)
{
	(void)state;
	launch_rig_put('a', 'h', "", 1000);
	scratch_put("in/x.wav", 1);
	scratch_put("in/y.wav", 2);
	int results = 0;
	struct gd_launch_options o = launch_rig_options();
	o.gpus = "sim:1";
	o.on_result = on_result_remove;
	o.context = &results;
	struct gd_launch_summary *s = launch_rig_launch(&o, 1);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 8, .failed = 2});
	assert_int_equal(results, 10);
	gd_launch_summary_free(s);
}

static void test_exit_code_tells_failure_usage_and_interruption_apart(void **state)
{
	(void)state;
	assert_int_equal(gd_launch_exit_code(0), 0);
	assert_int_equal(gd_launch_exit_code(1), 1);
	assert_int_equal(gd_launch_exit_code(-ECANCELED), 130);
	assert_int_equal(gd_launch_exit_code(-EINVAL), 2);
	assert_int_equal(gd_launch_exit_code(-ENOENT), 2);
	assert_int_equal(gd_launch_exit_code(-ENOSPC), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_rig_test(test_all_files_are_done_once_and_then_no_more),
		launch_rig_test(test_changed_file_settings_worker_or_missing_result_is_done_again),
		launch_rig_test(test_failures_are_told_and_tried_again_by_the_next_run),
		launch_rig_test(test_retries_save_a_file_whose_worker_crashed),
		launch_rig_test(test_file_that_hangs_is_ended_by_the_timeout),
		launch_rig_test(test_setup_that_fails_everywhere_ends_it_with_the_reason),
		launch_rig_test(test_max_failures_ends_it_early),
		launch_rig_test(test_folders_of_results_stay_with_their_files),
		launch_rig_test(test_results_of_another_folder_are_not_replaced),
		launch_rig_test(test_every_mistake_is_found_before_anything_starts),
		launch_rig_test(test_found_files_and_earlier_speed_are_known_before_the_run),
		launch_rig_test(test_without_files_no_output_folder_is_made),
		launch_rig_test(test_files_that_vanish_fail_alone),
		cmocka_unit_test(test_exit_code_tells_failure_usage_and_interruption_apart),
	};
	return cmocka_run_group_tests_name("launch_launcher", tests, NULL, NULL);
}
