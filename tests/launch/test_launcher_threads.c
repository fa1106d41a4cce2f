/* SPDX-License-Identifier: MIT */
/* gd_launch() in a program with a busy thread. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu_dispatch_launch.h"
#include "support/check.h"
#include "support/scratch.h"

static atomic_bool over;
static pthread_t thread;

/* Holds the locks of malloc() and stdio most of the time. */
static void *be_busy(void *arg)
{
	FILE *f = arg;
	while (!atomic_load(&over)) {
		fputs("busy", f);
		rewind(f);
		free(malloc(100000));
	}
	fclose(f);
	return NULL;
}

static int begin(void **state)
{
	FILE *f = fopen("/dev/null", "we");
	if (!f || scratch_enter(state) < 0)
		return -1;
	scratch_put("in/a.wav", 10);
	scratch_put("in/b.wav", 20);
	atomic_store(&over, false);
	return pthread_create(&thread, NULL, be_busy, f);
}

static int end(void **state)
{
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	return scratch_leave(state);
}

static struct gd_launch_options options_of(void)
{
	return (struct gd_launch_options){
		.size = sizeof(struct gd_launch_options),
		.input_dir = "in",
		.output_dir = "out",
		.gpus = "sim:2",
		.output = GD_OUTPUT_SILENT,
	};
}

static void launch_well(const struct gd_launch_options *o)
{
	struct gd_launch_summary *s = NULL;
	struct gd_error err = {0};
	int r = gd_launch(o, &s, &err);
	if (r < 0)
		fail_msg("%s", err.message);
	if (s->num_failures)
		print_message("%s\n", s->failures[0]->error);
	assert_int_equal(s->files_done, 2);
	assert_int_equal(gd_launch_exit_code(r, s), 0);
	gd_launch_summary_free(s);
}

static void test_command_runs_in_a_program_with_threads(void **state)
{
	(void)state;
	static const struct gd_setting settings[] = {{.key = "word", .value = "hello\n"}};
	static const char *const command[] = {
		"sh", "-c", "printf %s \"$1\" > \"$2\"/said", "sh", "{word}", "{output}", NULL};
	struct gd_launch_options o = options_of();
	o.command = command;
	o.settings = settings;
	o.num_settings = 1;
	launch_well(&o);
	assert_string_equal(scratch_read("out/a/said"), "hello\n");
}

static void test_persistent_program_runs_in_a_program_with_threads(void **state)
{
	(void)state;
	const char *const program[] = {getenv("TEST_SPEAKER"), "good", ".", NULL};
	struct gd_launch_options o = options_of();
	o.program = program;
	launch_well(&o);
}

static void test_plugin_runs_in_a_program_with_threads(void **state)
{
	(void)state;
	char path[4096];
	snprintf(path, sizeof(path), "%s/good.so", getenv("TEST_PLUGINS"));
	struct gd_launch_options o = options_of();
	o.plugin = path;
	launch_well(&o);
	assert_true(scratch_has("out/a/a.pid"));
	/* Its path spelled differently: the same plug-in, so nothing is left to do. */
	snprintf(path, sizeof(path), "%s/./good.so", getenv("TEST_PLUGINS"));
	struct gd_launch_summary *s = NULL;
	assert_int_equal(gd_launch(&o, &s, NULL), 0);
	assert_int_equal(s->files_skipped, 2);
	gd_launch_summary_free(s);
}

static void test_plugin_is_found_by_its_name_and_is_the_default(void **state)
{
	(void)state;
	char path[4096];
	snprintf(path, sizeof(path), "%s/good.so", getenv("TEST_PLUGINS"));
	assert_int_equal(mkdir("workers", 0755), 0);
	assert_int_equal(symlink(path, "workers/whisper.so"), 0);
	setenv("GPUQ_WORKER_PATH", "workers", 1);
	struct gd_launch_options o = options_of();
	launch_well(&o); /* no worker is given: the recognizer that is installed */
	assert_true(scratch_has("out/a/a.pid"));
	o.plugin = "whisper";
	o.force = 1;
	launch_well(&o);
	o.plugin = "wisper";
	struct gd_error err = {0};
	assert_int_equal(gd_launch(&o, NULL, &err), -ENOENT);
	assert_non_null(strstr(err.message, "did you mean 'whisper'?"));
	unsetenv("GPUQ_WORKER_PATH");
}

static void test_worker_program_runs_in_a_program_with_threads(void **state)
{
	(void)state;
	static const struct gd_setting settings[] = {{.key = "word", .value = "seen"}};
	const char *const argv[] = {getenv("TEST_FILE_PROGRAM"), NULL};
	struct gd_launch_options o = options_of();
	o.worker_argv = argv;
	o.settings = settings;
	o.num_settings = 1;
	launch_well(&o);
	assert_string_equal(scratch_read("out/b/seen"), "seen");
	/* Another name is another worker: nothing is done yet. */
	o.worker_name = "another";
	launch_well(&o);
	const char *const nowhere[] = {"/nowhere/program", NULL};
	struct gd_error err = {0};
	o.worker_argv = nowhere;
	assert_int_equal(gd_launch(&o, NULL, &err), -ENOENT);
	check_contains(err.message, "cannot execute the worker's program '/nowhere/program'");
}

static int do_nothing(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w, (void)state, (void)task;
	return 0;
}

static void test_hooks_of_this_program_need_one_without_threads(void **state)
{
	(void)state;
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = do_nothing};
	struct gd_launch_options o = options_of();
	struct gd_error err = {0};
	struct gd_launch_summary *s = NULL;
	o.worker = &ops;
	assert_int_equal(gd_launch(&o, &s, &err), -EBUSY);
	assert_null(s);
	check_contains(err.message, "worker_argv or plugin of struct gd_launch_options");
	check_contains(err.message, "allow_threads");
	o.allow_threads = 1;
	launch_well(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_command_runs_in_a_program_with_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_persistent_program_runs_in_a_program_with_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_plugin_runs_in_a_program_with_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_plugin_is_found_by_its_name_and_is_the_default, begin, end),
		cmocka_unit_test_setup_teardown(test_worker_program_runs_in_a_program_with_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_hooks_of_this_program_need_one_without_threads, begin, end),
	};
	return cmocka_run_group_tests_name("launch_threads", tests, NULL, NULL);
}
