/* SPDX-License-Identifier: MIT */
/* Plug-ins: found by name, looked at in a child, loaded in the worker alone. */
#include "launch_lab.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/plugin.h"
#include "launch/plugins.h"

static const char *plugin(const char *name)
{
	static char path[PATH_MAX];
	assert_non_null(getenv("TEST_PLUGINS"));
	snprintf(path, sizeof(path), "%s/%s.so", getenv("TEST_PLUGINS"), name);
	return path;
}

static struct lab *lab_of(void **state, const char *name)
{
	struct lab *lab = *state;
	lab->worker.kind = LAUNCH_PLUGIN;
	lab->worker.plugin = plugin(name);
	return lab;
}

/* ---- Working ------------------------------------------------------------ */

static void run_well(struct lab *lab)
{
	lab_open(lab);
	lab_submit(lab, "a.wav", -1);
	lab_submit(lab, "fails.wav", -1);
	lab_await(lab, 2);
	lab_close(lab);
	assert_string_equal(lab->ends[0].message, "");
	assert_true(lab->ends[0].seconds == 12.5);
	lab_assert_contains(lab->ends[1].message, "fails.wav' fails");
	assert_int_not_equal(atoi(lab_read(lab, "a.pid")), 0);
	assert_int_not_equal(atoi(lab_read(lab, "a.pid")), getpid());
}

static void test_plugin_works_on_files_and_is_loaded_in_the_worker_alone(void **state)
{
	struct lab *lab = lab_of(state, "good");
	run_well(lab);
	assert_null(dlopen(lab->worker.plugin, RTLD_NOW | RTLD_NOLOAD));
}

static void test_plugin_that_is_linked_with_the_library_works_as_well(void **state)
{
	run_well(lab_of(state, "linked"));
}

static void test_plugin_may_take_several_files_at_a_time(void **state)
{
	struct lab *lab = lab_of(state, "batch");
	lab_open(lab);
	for (int i = 0; i < 20; i++)
		lab_submit(lab, i == 7 ? "fails" : "a", -1);
	lab_await(lab, 20);
	lab_close(lab);
	for (size_t i = 0; i < 20; i++) {
		assert_string_equal(lab->ends[i].message, i == 7 ? "batched failure" : "");
		assert_true(lab->ends[i].seconds < 5);
	}
}

static void test_setup_of_a_plugin_sees_settings_and_may_fail(void **state)
{
	struct lab *lab = lab_of(state, "good");
	static const struct gd_setting settings[] = {{"model_size", "none"}};
	lab->worker.settings = settings;
	lab->worker.num_settings = 1;
	lab_open(lab);
	lab_await_setup_failure(lab);
	assert_string_equal(lab->setup_message, "no such model");
	gd_close(lab->pool, NULL, NULL);
	lab->pool = NULL;
}

/* ---- Looking ------------------------------------------------------------ */

static void assert_bad(void **state, const char *name, const char *words)
{
	struct lab *lab = lab_of(state, name);
	struct gd_error err = {0};
	assert_true(launch_worker_check(&lab->worker, &err) < 0);
	lab_assert_contains(err.message, words);
	lab_assert_contains(err.message, name);
}

static void test_bad_plugins_are_told_with_the_reason(void **state)
{
	struct lab *lab = *state;
	assert_bad(state, "nowhere", "cannot open shared object file");
	assert_bad(state, "bare", "exports no 'gd_worker'");
	assert_bad(state, "hookless", "has neither process nor process_batch");
	assert_bad(state, "missing", "undefined symbol: not_there_at_all");
	assert_bad(state, "crash", "crashes while it is being loaded: SIGABRT");
	assert_bad(state, "exits", "ends the program while it is being loaded: exit 3");
	lab_write(lab, "text.so", "not a library\n");
	struct gd_error err = {0};
	struct plugin_look look;
	assert_true(plugin_look(lab_path(lab, "text.so"), LAB_WAIT_MS, &look, &err) < 0);
	lab_assert_contains(err.message, "file too short");
}

static void test_plugin_that_hangs_in_a_constructor_is_given_up(void **state)
{
	(void)state;
	struct gd_error err = {0};
	struct plugin_look look;
	assert_int_equal(plugin_look(plugin("hang"), 1000, &look, &err), -ETIMEDOUT);
	lab_assert_contains(err.message, "is not loaded after 1 s: something hangs in it");
}

static void test_look_tells_hooks_and_what_it_is_about(void **state)
{
	(void)state;
	struct plugin_look look;
	assert_int_equal(plugin_look(plugin("batch"), LAB_WAIT_MS, &look, NULL), 0);
	assert_true(look.has_batch);
	assert_int_equal(look.max_batch, 5);
	assert_string_equal(look.about, "works on several\xEF\xBF\xBD"
					"files at a time");
	assert_int_equal(plugin_look(plugin("good"), LAB_WAIT_MS, &look, NULL), 0);
	assert_false(look.has_batch);
}

/* ---- Names -------------------------------------------------------------- */

static void test_list_has_each_name_once_the_first_folder_counts(void **state)
{
	struct lab *lab = *state;
	char path[PATH_MAX];
	assert_int_equal(symlink(plugin("batch"), lab_path(lab, "good.so")), 0);
	lab_write(lab, "broken.so", "x");
	lab_write(lab, "readme.txt", "x");
	assert_int_equal(mkdir(lab_path(lab, "folder.so"), 0700), 0);
	snprintf(path, sizeof(path), "/nowhere::%s:%s", lab->dir, getenv("TEST_PLUGINS"));
	setenv("GPUQ_WORKER_PATH", path, 1);
	struct plugin *plugins;
	size_t count, good = 0, others = 0;
	assert_int_equal(plugins_list(&plugins, &count), 0);
	for (size_t i = 0; i < count; i++) {
		char about[256];
		assert_true(i == 0 || strcmp(plugins[i - 1].name, plugins[i].name) < 0);
		if (strcmp(plugins[i].name, "good") == 0) {
			assert_true(plugins_describe(&plugins[i], about, sizeof(about)));
			lab_assert_contains(about, "works on several");
			good++;
		}
		if (strcmp(plugins[i].name, "broken") == 0) {
			assert_false(plugins_describe(&plugins[i], about, sizeof(about)));
			lab_assert_contains(about, "file too short");
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
	lab_assert_contains(path, end);
	free(path);
}

static void assert_not_found(const char *name, const char *words)
{
	char *path = NULL;
	struct gd_error err = {0};
	assert_true(plugins_find(name, &path, &err) < 0);
	assert_null(path);
	lab_assert_contains(err.message, words);
}

static void test_worker_is_a_name_or_a_file(void **state)
{
	struct lab *lab = *state;
	setenv("GPUQ_WORKER_PATH", getenv("TEST_PLUGINS"), 1);
	assert_found("good", "/good.so");
	assert_found(plugin("batch"), "/batch.so");
	assert_not_found("god", "there is no worker 'god'; did you mean 'good'?");
	assert_not_found("something-else", "there are: ");
	assert_not_found("./nowhere.so", "'./nowhere.so' cannot be opened: No such file or directory");
	assert_not_found("nowhere.so", "cannot be opened");
	assert_int_equal(chdir(lab->dir), 0);
	assert_int_equal(symlink(plugin("batch"), "mine.so"), 0);
	assert_found("mine.so", "/batch.so");
	assert_int_equal(chdir("/"), 0);
}

static void test_default_is_whisper_before_pocketsphinx(void **state)
{
	struct lab *lab = *state;
	setenv("GPUQ_WORKER_PATH", lab->dir, 1);
	char *path = NULL;
	struct gd_error err = {0};
	/* Some may be installed on this machine. */
	if (plugins_find(NULL, &path, &err) < 0)
		lab_assert_contains(
			err.message, "none for speech is installed; type a command for each file behind --");
	free(path);
	lab_write(lab, "pocketsphinx.so", "x");
	assert_int_equal(plugins_find(NULL, &path, NULL), 0);
	free(path);
	lab_write(lab, "whisper.so", "x");
	char expected[128];
	snprintf(expected, sizeof(expected), "%s/whisper.so", lab->dir);
	assert_found(NULL, expected);
}

#define lab_test(f) cmocka_unit_test_setup_teardown(f, lab_setup, lab_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lab_test(test_plugin_works_on_files_and_is_loaded_in_the_worker_alone),
		lab_test(test_plugin_that_is_linked_with_the_library_works_as_well),
		lab_test(test_plugin_may_take_several_files_at_a_time),
		lab_test(test_setup_of_a_plugin_sees_settings_and_may_fail),
		lab_test(test_bad_plugins_are_told_with_the_reason),
		lab_test(test_plugin_that_hangs_in_a_constructor_is_given_up),
		lab_test(test_look_tells_hooks_and_what_it_is_about),
		lab_test(test_list_has_each_name_once_the_first_folder_counts),
		lab_test(test_worker_is_a_name_or_a_file),
		lab_test(test_default_is_whisper_before_pocketsphinx),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
