/* SPDX-License-Identifier: MIT */
/* A launcher, with hooks of this program as workers: finished files, failures, and checks before the start. */
#include "launch_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/board.h"
#include "support/check.h"
#include "support/process.h"
#include "support/scratch.h"

static void test_all_files_are_done_once_and_then_no_more(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 10);
	scratch_put("in/bs.wav", 30);
	scratch_put("in/deep/c.wav", 20);
	struct gd_launch_options o = launch_rig_options();
	o.recursive = 1;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 3});
	assert_true(s->audio_seconds == 7);
	assert_int_equal(s->bytes_done, 60);
	assert_int_equal(s->num_gpus, 2);
	assert_int_equal(s->gpus[0]->files + s->gpus[1]->files, 3);
	gd_launch_summary_free(s);
	assert_true(scratch_has("out/a") && scratch_has("out/bs") && scratch_has("out/deep/c"));

	launch_rig_run(&o, 0, (struct launch_counts){.skipped = 3});
	assert_int_equal(board->begun, 3);

	o.force = 1;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 3});
	assert_int_equal(board->begun, 6);
}

static void test_changed_file_settings_worker_or_missing_result_is_done_again(void **state)
{
	(void)state;
	static const struct gd_setting large[] = {{.key = "model_size", .value = "large"}};
	scratch_put("in/a.wav", 10);
	scratch_put("in/b.wav", 10);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run_well(&o);
	/* A changed size, time, setting or worker, or a missing output. */
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

static void test_failures_are_reported_and_retried_by_the_next_run(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("in/bf.wav", 1);
	scratch_put("in/ck.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 1, .failed = 2});
	assert_int_equal(gd_launch_exit_code(0, s), 1);
	assert_int_equal(s->num_failures, 2);
	for (size_t i = 0; i < 2; i++)
		if (strcmp(s->failures[i]->file, "bf.wav") == 0)
			assert_string_equal(s->failures[i]->error, "cannot do bf");
		else
			check_contains(s->failures[i]->error, "SIGKILL");
	gd_launch_summary_free(s);
	launch_rig_run(&o, 0, (struct launch_counts){.failed = 2, .skipped = 1});
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
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
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
	assert_int_equal(gd_launch(&o, &s, &err), -ECHILD);
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
	assert_int_equal(gd_launch(&o, &s, &err), -EDQUOT);
	assert_true(s->files_failed == 3 && s->files_left > 0);
	check_contains(err.message, "stopped after 3 failures");
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
	check_contains(err.message, "set force");
	o.force = 1;
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
	assert_null(strstr(m.text, "--")); /* options of gpuq launch: a caller in C has fields */
	mkdir("in", 0755);
	o = launch_rig_options();
	o.output_dir = "in/../in";
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 0);
	o.recursive = 1;
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
	assert_false(scratch_has("out"));
}

static void test_folder_and_gpus_are_checked_without_a_worker(void **state)
{
	(void)state;
	setenv("GPUQ_WORKER_PATH", "/nonexistent", 1);
	scratch_put("in/a.wav", 1);
	struct gd_launch_options o = {.size = sizeof(o), .input_dir = "in", .gpus = "sim:2"};
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 0);
	o.gpus = "rubbish";
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
}

static void test_settings_are_strings_and_the_last_of_a_key_counts(void **state)
{
	(void)state;
	static const struct gd_setting nul[] = {{.key = "model", .value = "a\0b", .value_size = 3}};
	static const struct gd_setting once[] = {{.key = "model", .value = "large"}};
	static const struct gd_setting twice[] = {
		{.key = "model", .value = "small"}, {.key = "model", .value = "larger", .value_size = 5}};
	scratch_put("in/a.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	struct noted_mistakes m = {0};
	o.num_settings = 1;
	o.settings = nul;
	assert_int_equal(gd_launch_validate(&o, note, &m), 1);
	check_contains(m.text, "setting 'model': the value contains a NUL byte");
	o.settings = once;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 1});
	/* The same settings for the worker, so the file is done. */
	o.settings = twice;
	o.num_settings = 2;
	launch_rig_run(&o, 0, (struct launch_counts){.skipped = 1});
}

/* As compiled with a header in which the options are `size` bytes long; `set`: a byte beyond the known fields is not
 * zero.
 */
static int validate_sized(size_t size, bool set, struct noted_mistakes *m)
{
	_Alignas(struct gd_launch_options) unsigned char bytes[sizeof(struct gd_launch_options) + 64] = {0};
	struct gd_launch_options o = launch_rig_options();
	o.size = size;
	memcpy(bytes, &o, size < sizeof(o) ? size : sizeof(o));
	if (set)
		bytes[size - 1] = 1;
	*m = (struct noted_mistakes){0};
	return gd_launch_validate((const struct gd_launch_options *)bytes, note, m);
}

static void test_options_of_other_versions_of_the_header_work(void **state)
{
	(void)state;
	struct noted_mistakes m;
	mkdir("in", 0755);
	/* Without the last fields, which are zero. */
	assert_int_equal(validate_sized(offsetof(struct gd_launch_options, retries), false, &m), 0);
	assert_int_equal(validate_sized(sizeof(struct gd_launch_options) + 16, false, &m), 0);
	assert_int_equal(validate_sized(sizeof(struct gd_launch_options) + 16, true, &m), 1);
	check_contains(m.text, "struct gd_launch_options has a field set that this version of the library");
	assert_int_equal(validate_sized(0, false, &m), 1);
	check_contains(m.text, "set it to sizeof(struct gd_launch_options)");
	struct gd_launch_options o = launch_rig_options();
	assert_int_equal(gd_launch_validate(NULL, NULL, NULL), 1);
	/* Output structs: filled only up to the caller's size, and zero beyond the known fields. */
	struct gd_launcher *l = NULL;
	struct {
		struct gd_launch_summary s;
		uint64_t behind;
	} larger = {.behind = 7};
	o = launch_rig_options();
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	gd_launcher_summary(l, &larger.s, sizeof(larger.s));
	assert_int_equal(larger.behind, 7);
	gd_launcher_summary(l, &larger.s, sizeof(larger));
	assert_int_equal(larger.behind, 0);
	assert_int_equal(larger.s.size, sizeof(struct gd_launch_summary));
	gd_launcher_destroy(l);
}

static void test_summary_is_set_when_work_was_begun_and_only_then(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("file", 1);
	struct gd_launch_summary some = {0}, *s = &some;
	struct gd_launch_options o = launch_rig_options();
	o.output_dir = "file/out";
	assert_true(gd_launch(&o, &s, NULL) < 0);
	assert_null(s);
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
	const struct gd_found *const *todo = gd_launcher_todo(l, &count);
	assert_int_equal(count, 1);
	assert_string_equal(todo[0]->path, "c.wav");
	struct gd_launch_pace pace;
	gd_launcher_earlier_pace(l, &pace, sizeof(pace));
	assert_int_equal(pace.known, GD_KNOWN_RTF | GD_KNOWN_BYTES_PER_SECOND);
	assert_true(pace.rtf > 0 && pace.bytes_per_second > 0);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s, sizeof(s));
	assert_true(s.progress > 0.66 && s.progress < 0.67);
	launch_rig_assert_counts(&s, (struct launch_counts){.skipped = 2, .left = 1});
	gd_launcher_destroy(l);
	gd_launcher_destroy(NULL);
}

/* A second launcher, in its own process, while this one runs. */
static void on_progress_launch_another(void *context, const struct gd_launch_progress *p)
{
	int *code = context;
	(void)p;
	if (*code || !atomic_load(&board->begun))
		return;
	pid_t pid = fork();
	if (pid == 0) {
		struct gd_launch_options o = launch_rig_options();
		_exit(gd_launch(&o, NULL, NULL) == -EBUSY ? 7 : 1);
	}
	*code = process_exit_code(pid);
	atomic_store(&board->go, 1);
}

static void test_planning_again_under_the_lock_keeps_the_lock(void **state)
{
	(void)state;
	scratch_put("in/aw.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	int code = 0;
	o.on_progress = on_progress_launch_another;
	o.context = &code;
	struct gd_launcher *l = NULL;
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	assert_int_equal(gd_launcher_find(l, NULL), 0);
	/* Another launcher wrote between the check and the lock. */
	assert_int_equal(mkdir("out", 0755), 0);
	scratch_write_text("out/launch.jsonl", "{\"event\":\"run\",\"version\":1,\"input\":\"/x\"}\n");
	scratch_put("in/b.wav", 1);
	assert_int_equal(gd_launcher_run(l, NULL), 0);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s, sizeof(s));
	launch_rig_assert_counts(&s, (struct launch_counts){.done = 2}); /* b was found by the second plan */
	assert_int_equal(code, 7);
	gd_launcher_destroy(l);
}

static void test_without_files_no_output_folder_is_made(void **state)
{
	(void)state;
	mkdir("in", 0755);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run(&o, 0, (struct launch_counts){0});
	assert_false(scratch_has("out"));
}

/* The record in it is a link to the record of an earlier run of this user with another output folder. */
static void test_output_folder_that_others_fill_after_the_check_is_not_trusted(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	o.output_dir = "mine";
	launch_rig_run_well(&o);
	o.output_dir = "out";
	struct gd_launcher *found = NULL, *unplanned = NULL;
	struct gd_error err = {0};
	assert_int_equal(gd_launcher_create(&o, &found, NULL), 0);
	assert_int_equal(gd_launcher_create(&o, &unplanned, NULL), 0);
	assert_int_equal(mkdir("out", 0777) | chmod("out", 0777) | mkdir("out/a", 0755), 0);
	assert_int_equal(symlink("../mine/launch.jsonl", "out/launch.jsonl"), 0);
	assert_int_equal(gd_launcher_find(found, &err), -EPERM);
	check_contains(err.message, "can be written by everybody");
	assert_int_equal(gd_launcher_run(found, NULL), -EPERM);
	assert_int_equal(gd_launcher_run(unplanned, NULL), -EPERM);
	assert_int_equal(board->begun, 1);
	gd_launcher_destroy(found);
	gd_launcher_destroy(unplanned);
	/* No other file takes the place of the record, even in a trusted folder. */
	o.trust_output_dir = 1;
	struct gd_launch_summary *s = launch_rig_launch(&o, -ELOOP);
	assert_null(s);
}

static void test_output_folder_that_is_replaced_after_the_plan_is_planned_again(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	struct gd_launch_options o = launch_rig_options();
	launch_rig_run_well(&o);
	scratch_put("in/b.wav", 1);
	struct gd_launcher *l = NULL;
	size_t count;
	struct gd_launch_summary s;
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	assert_int_equal(gd_launcher_find(l, NULL), 0);
	gd_launcher_todo(l, &count);
	assert_int_equal(count, 1);
	/* The new folder has a record of the same size. */
	assert_int_equal(rename("out", "old") | mkdir("out", 0755), 0);
	assert_int_equal(rename("old/launch.jsonl", "out/launch.jsonl"), 0);
	assert_int_equal(gd_launcher_run(l, NULL), 0);
	gd_launcher_summary(l, &s, sizeof(s));
	launch_rig_assert_counts(&s, (struct launch_counts){.done = 2});
	assert_true(scratch_has("out/a") && scratch_has("out/b"));
	gd_launcher_destroy(l);
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
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 8, .failed = 2});
	assert_int_equal(results, 10);
	gd_launch_summary_free(s);
}

static void test_exit_code_distinguishes_failure_usage_and_interruption(void **state)
{
	(void)state;
	struct gd_launch_summary s = {.size = sizeof(s), .files_total = 2, .files_done = 1, .files_skipped = 1};
	assert_int_equal(gd_launch_exit_code(0, NULL), 0);
	assert_int_equal(gd_launch_exit_code(0, &s), 0);
	s.files_failed = 1;
	assert_int_equal(gd_launch_exit_code(0, &s), 1);
	s.files_failed = 0;
	s.files_unrecorded = 1;
	assert_int_equal(gd_launch_exit_code(0, &s), 1);
	assert_int_equal(gd_launch_exit_code(-ECANCELED, &s), 130);
	assert_int_equal(gd_launch_exit_code(-ECANCELED, NULL), 130);
	assert_int_equal(gd_launch_exit_code(-EDQUOT, NULL), 1);
	assert_int_equal(gd_launch_exit_code(-ECHILD, NULL), 1);
	assert_int_equal(gd_launch_exit_code(-EINVAL, NULL), 2);
	assert_int_equal(gd_launch_exit_code(-ENOENT, NULL), 2);
	assert_int_equal(gd_launch_exit_code(-ENOSPC, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_rig_test(test_all_files_are_done_once_and_then_no_more),
		launch_rig_test(test_changed_file_settings_worker_or_missing_result_is_done_again),
		launch_rig_test(test_failures_are_reported_and_retried_by_the_next_run),
		launch_rig_test(test_retries_save_a_file_whose_worker_crashed),
		launch_rig_test(test_file_that_hangs_is_ended_by_the_timeout),
		launch_rig_test(test_setup_that_fails_everywhere_ends_it_with_the_reason),
		launch_rig_test(test_max_failures_ends_it_early),
		launch_rig_test(test_folders_of_results_stay_with_their_files),
		launch_rig_test(test_results_of_another_folder_are_not_replaced),
		launch_rig_test(test_every_mistake_is_found_before_anything_starts),
		launch_rig_test(test_folder_and_gpus_are_checked_without_a_worker),
		launch_rig_test(test_settings_are_strings_and_the_last_of_a_key_counts),
		launch_rig_test(test_options_of_other_versions_of_the_header_work),
		launch_rig_test(test_summary_is_set_when_work_was_begun_and_only_then),
		launch_rig_test(test_found_files_and_earlier_speed_are_known_before_the_run),
		launch_rig_test(test_planning_again_under_the_lock_keeps_the_lock),
		launch_rig_test(test_without_files_no_output_folder_is_made),
		launch_rig_test(test_output_folder_that_others_fill_after_the_check_is_not_trusted),
		launch_rig_test(test_output_folder_that_is_replaced_after_the_plan_is_planned_again),
		launch_rig_test(test_files_that_vanish_fail_alone),
		cmocka_unit_test(test_exit_code_distinguishes_failure_usage_and_interruption),
	};
	return cmocka_run_group_tests_name("launch_launcher", tests, NULL, NULL);
}
