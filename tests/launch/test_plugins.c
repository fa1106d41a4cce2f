/* SPDX-License-Identifier: MIT */
/* Plug-ins: found by name, inspected in a child, loaded only in the worker. */
#include "file_rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/plugin_inspect.h"
#include "launch/plugins.h"

static const char *plugin(const char *name)
{
	static char path[PATH_MAX];
	assert_non_null(getenv("TEST_PLUGINS"));
	snprintf(path, sizeof(path), "%s/%s.so", getenv("TEST_PLUGINS"), name);
	return path;
}

static struct file_rig *rig_of(void **state, const char *name)
{
	struct file_rig *rig = *state;
	rig->worker.kind = LAUNCH_PLUGIN;
	rig->worker.plugin = plugin(name);
	return rig;
}

/* ---- Running ------------------------------------------------------------ */

static void run_well(struct file_rig *rig)
{
	file_rig_open(rig);
	file_rig_submit(rig, "a.wav", -1);
	file_rig_submit(rig, "fails.wav", -1);
	file_rig_await(rig, 2);
	file_rig_close(rig);
	assert_string_equal(rig->ends[0].message, "");
	assert_true(rig->ends[0].seconds == 12.5);
	check_contains(rig->ends[1].message, "fails.wav' fails");
	assert_int_not_equal(atoi(file_rig_read(rig, "a.pid")), 0);
	assert_int_not_equal(atoi(file_rig_read(rig, "a.pid")), getpid());
}

static void test_plugin_works_on_files_and_is_loaded_in_the_worker_alone(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	run_well(rig);
	assert_null(dlopen(rig->worker.plugin, RTLD_NOW | RTLD_NOLOAD));
}

static void test_plugin_that_is_linked_with_the_library_works_as_well(void **state)
{
	run_well(rig_of(state, "linked"));
}

static void test_plugin_may_take_several_files_at_a_time(void **state)
{
	struct file_rig *rig = rig_of(state, "batch");
	file_rig_open(rig);
	for (int i = 0; i < 20; i++)
		file_rig_submit(rig, i == 7 ? "fails" : "a", -1);
	file_rig_await(rig, 20);
	file_rig_close(rig);
	for (size_t i = 0; i < 20; i++) {
		assert_string_equal(rig->ends[i].message, i == 7 ? "batched failure" : "");
		assert_true(rig->ends[i].seconds < 5);
	}
}

static void test_setup_of_a_plugin_sees_settings_and_may_fail(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	static const struct gd_setting settings[] = {{.key = "model_size", .value = "none"}};
	rig->worker.settings = settings;
	rig->worker.num_settings = 1;
	file_rig_open(rig);
	file_rig_await_setup_failure(rig);
	assert_string_equal(rig->setup_message, "no such model");
	gd_pool_close(rig->pool, NULL, 0, NULL);
	rig->pool = NULL;
}

static void test_on_cancel_of_a_plugin_interrupts_a_file_that_is_out_of_time(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	rig->options.task_timeout_ms = 50;
	rig->options.grace_ms = FILE_RIG_WAIT_MS; /* killed after that if on_cancel is not called */
	file_rig_open(rig);
	file_rig_submit(rig, "waits.wav", -1);
	file_rig_await(rig, 1);
	assert_true(rig->ends[0].timed_out);
	struct gd_worker_stats stats;
	assert_int_equal(gd_pool_worker_stats(rig->pool, 0, &stats, sizeof(stats)), 0);
	assert_int_equal(stats.restarts, 0);
	file_rig_close(rig);
}

static void test_on_leave_of_a_plugin_is_called_at_the_end(void **state)
{
	struct file_rig *rig = rig_of(state, "good");
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s", file_rig_path(rig, "left"));
	const struct gd_setting settings[] = {{.key = "leave", .value = path}};
	rig->worker.settings = settings;
	rig->worker.num_settings = 1;
	file_rig_open(rig);
	file_rig_submit(rig, "a.wav", -1);
	file_rig_await(rig, 1);
	file_rig_close(rig);
	assert_int_equal(access(path, F_OK), 0);
}

/* ---- Inspection --------------------------------------------------------- */

static void assert_bad(void **state, const char *name, const char *words)
{
	struct file_rig *rig = rig_of(state, name);
	struct gd_error err = {0};
	assert_true(launch_worker_check(&rig->worker, &err) < 0);
	check_contains(err.message, words);
	check_contains(err.message, name);
}

static void test_bad_plugins_are_reported_with_the_reason(void **state)
{
	struct file_rig *rig = *state;
	assert_bad(state, "nowhere", "cannot open shared object file");
	assert_bad(state, "bare", "exports no 'gd_plugin_get'; it needs: const struct gd_plugin *gd_plugin_get(void)");
	assert_bad(state, "old", "exports no 'gd_plugin_get', only 'gd_worker', which is no longer used; it needs:");
	assert_bad(state, "future", "is a plug-in of version 2, but this gpu_dispatch");
	assert_bad(state, "sizeless", "the size in struct gd_plugin is 0");
	assert_bad(state, "hookless", "has neither process nor process_batch");
	assert_bad(state, "missing", "undefined symbol: not_there_at_all");
	assert_bad(state, "crash", "crashed while it was loaded: SIGABRT");
	assert_bad(state, "exits", "exited while it was loaded: exit code 3");
	file_rig_write(rig, "text.so", "not a library\n");
	struct gd_error err = {0};
	struct plugin_facts facts;
	assert_true(plugin_inspect(file_rig_path(rig, "text.so"), NULL, FILE_RIG_WAIT_MS, &facts, &err) < 0);
	check_contains(err.message, "file too short");
}

static void test_plugin_that_hangs_in_a_constructor_is_given_up(void **state)
{
	(void)state;
	struct gd_error err = {0};
	struct plugin_facts facts;
	assert_int_equal(plugin_inspect(plugin("hang"), NULL, 1000, &facts, &err), -ETIMEDOUT);
	check_contains(err.message, "did not load within 1 s");
}

static void test_inspection_reports_hooks_batch_size_and_description(void **state)
{
	(void)state;
	struct plugin_facts facts;
	assert_int_equal(plugin_inspect(plugin("batch"), NULL, FILE_RIG_WAIT_MS, &facts, NULL), 0);
	assert_true(facts.has_batch);
	assert_int_equal(facts.max_batch, 5);
	assert_string_equal(facts.about, "works on several\xEF\xBF\xBD"
					 "files at a time");
	assert_int_equal(plugin_inspect(plugin("good"), NULL, FILE_RIG_WAIT_MS, &facts, NULL), 0);
	assert_false(facts.has_batch);
}

/* ---- Names -------------------------------------------------------------- */

static void test_list_has_each_name_once_from_the_first_folder(void **state)
{
	struct file_rig *rig = *state;
	char path[PATH_MAX];
	assert_int_equal(symlink(plugin("batch"), file_rig_path(rig, "good.so")), 0);
	file_rig_write(rig, "broken.so", "x");
	file_rig_write(rig, "readme.txt", "x");
	assert_int_equal(mkdir(file_rig_path(rig, "folder.so"), 0700), 0);
	snprintf(path, sizeof(path), "/nowhere::%s:%s", rig->dir, getenv("TEST_PLUGINS"));
	setenv("GPUQ_WORKER_PATH", path, 1);
	struct plugin *plugins;
	size_t count, good = 0, others = 0;
	assert_int_equal(plugins_list(&plugins, &count), 0);
	for (size_t i = 0; i < count; i++) {
		char about[256];
		assert_true(i == 0 || strcmp(plugins[i - 1].name, plugins[i].name) < 0);
		if (strcmp(plugins[i].name, "good") == 0) {
			assert_true(plugins_describe(&plugins[i], about, sizeof(about)));
			check_contains(about, "works on several");
			good++;
		}
		if (strcmp(plugins[i].name, "broken") == 0) {
			assert_false(plugins_describe(&plugins[i], about, sizeof(about)));
			check_contains(about, "file too short");
		}
		others += strcmp(plugins[i].name, "folder") == 0 || strcmp(plugins[i].name, "readme") == 0;
	}
	assert_int_equal(good, 1);
	assert_int_equal(others, 0);
	plugins_free(plugins, count);
}

static void assert_found(const char *name, const char *end)
{
	char *path = NULL;
	struct gd_error err = {0};
	if (plugins_find(name, &path, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(path[0], '/');
	check_contains(path, end);
	free(path);
}

static void assert_not_found(const char *name, const char *words)
{
	char *path = NULL;
	struct gd_error err = {0};
	assert_true(plugins_find(name, &path, &err) < 0);
	assert_null(path);
	check_contains(err.message, words);
}

static void test_worker_is_found_by_name_or_by_path_to_a_file(void **state)
{
	struct file_rig *rig = *state;
	setenv("GPUQ_WORKER_PATH", getenv("TEST_PLUGINS"), 1);
	assert_found("good", "/good.so");
	assert_found(plugin("batch"), "/batch.so");
	assert_not_found("god", "unknown worker 'god'; did you mean 'good'?");
	assert_not_found("something-else", "installed workers: ");
	assert_not_found("./nowhere.so", "cannot open the worker './nowhere.so': No such file or directory");
	assert_not_found("nowhere.so", "cannot open the worker");
	assert_int_equal(chdir(rig->dir), 0);
	assert_int_equal(symlink(plugin("batch"), "mine.so"), 0);
	assert_found("mine.so", "/batch.so");
	assert_int_equal(chdir("/"), 0);
}

static void test_default_is_whisper_before_pocketsphinx(void **state)
{
	struct file_rig *rig = *state;
	setenv("GPUQ_WORKER_PATH", rig->dir, 1);
	char *path = NULL;
	struct gd_error err = {0};
	/* Some may be installed on this machine. */
	if (plugins_find(NULL, &path, &err) < 0)
		check_contains(err.message, "no speech recognizer is installed; install whisper.cpp");
	free(path);
	file_rig_write(rig, "pocketsphinx.so", "x");
	assert_int_equal(plugins_find(NULL, &path, NULL), 0);
	free(path);
	file_rig_write(rig, "whisper.so", "x");
	char expected[128];
	snprintf(expected, sizeof(expected), "%s/whisper.so", rig->dir);
	assert_found(NULL, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		file_rig_test(test_plugin_works_on_files_and_is_loaded_in_the_worker_alone),
		file_rig_test(test_plugin_that_is_linked_with_the_library_works_as_well),
		file_rig_test(test_plugin_may_take_several_files_at_a_time),
		file_rig_test(test_setup_of_a_plugin_sees_settings_and_may_fail),
		file_rig_test(test_on_cancel_of_a_plugin_interrupts_a_file_that_is_out_of_time),
		file_rig_test(test_on_leave_of_a_plugin_is_called_at_the_end),
		file_rig_test(test_bad_plugins_are_reported_with_the_reason),
		file_rig_test(test_plugin_that_hangs_in_a_constructor_is_given_up),
		file_rig_test(test_inspection_reports_hooks_batch_size_and_description),
		file_rig_test(test_list_has_each_name_once_from_the_first_folder),
		file_rig_test(test_worker_is_found_by_name_or_by_path_to_a_file),
		file_rig_test(test_default_is_whisper_before_pocketsphinx),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
