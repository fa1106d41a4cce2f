/* SPDX-License-Identifier: MIT */
/* Invalid use: each case gets an error with a message, and on_exit if a run had begun. Valid options are copied
 * completely. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/options.h"
#include "recorder.h"
#include "support/board.h"

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

static int nothing(void *context, const struct gd_event *event)
{
	(void)context;
	(void)event;
	return 0;
}

static int batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t n)
{
	(void)w;
	(void)state;
	(void)tasks;
	(void)n;
	return 0;
}

static struct gd_options good(void)
{
	return (struct gd_options){.size = sizeof(struct gd_options), .worker = &echo, .gpus = "sim:2"};
}

static const struct gd_callbacks calls = {.size = sizeof(calls), .on_success = nothing};

/* gd_dispatcher_create() and gd_pool_open() report the same. */
static void refused(const struct gd_options *o, int code, const char *words)
{
	struct gd_error err = {0};
	struct gd_dispatcher *d = (void *)1;
	struct gd_pool *p = (void *)1;
	assert_int_equal(gd_dispatcher_create(o, &d, &err), code);
	assert_int_equal(err.code, code);
	check_contains(err.message, words);
	assert_ptr_equal(d, (void *)1); /* untouched */
	err = (struct gd_error){0};
	assert_int_equal(gd_pool_open(o, &calls, &p, &err), code);
	assert_int_equal(err.code, code);
	check_contains(err.message, words);
	assert_ptr_equal(p, (void *)1);
	assert_int_equal(gd_dispatcher_create(o, &d, NULL), code); /* err is optional */
}

static void test_missing_double_or_hookless_worker_is_refused(void **state)
{
	(void)state;
	const char *const argv[] = {"worker", NULL}, *const empty[] = {NULL};
	struct gd_options o = good();
	o.worker = NULL;
	refused(&o, -EINVAL, "no worker: set worker (hooks of this program) or worker_argv");
	o.worker_argv = empty;
	refused(&o, -EINVAL, "worker_argv is empty");
	o = good();
	o.worker_argv = argv;
	refused(&o, -EINVAL, "two workers; set either worker or worker_argv");
	o = good();
	o.worker_env = empty;
	refused(&o, -EINVAL, "worker_env is given without worker_argv");
	const struct gd_worker_ops none = {.size = sizeof(none)},
				   both = {.size = sizeof(both), .process = recorder_echo, .process_batch = batch};
	o = good();
	o.worker = &none;
	refused(&o, -EINVAL, "the worker has no process hook");
	o.worker = &both;
	refused(&o, -EINVAL, "the worker has two process hooks");
}

static void test_contradictory_gpu_options_are_refused(void **state)
{
	(void)state;
	const int ids[] = {0};
	struct gd_options o = good();
	o.gpu_ids = ids;
	o.num_gpu_ids = 1;
	refused(&o, -EINVAL, "the GPUs are given twice");
	o.gpus = NULL;
	o.num_gpu_ids = 0;
	refused(&o, -EINVAL, "no GPUs: gpu_ids is given, but num_gpu_ids is 0");
	o.gpu_ids = NULL;
	o.num_gpu_ids = 3;
	refused(&o, -EINVAL, "num_gpu_ids is 3, but gpu_ids is NULL");
}

static void test_number_out_of_range_is_refused_by_name(void **state)
{
	(void)state;
	struct gd_options o = good();
	o.queue_size = -1;
	refused(&o, -EINVAL, "queue_size is -1; expected 0 (the default) to");
	o = good();
	o.retries = -2;
	refused(&o, -EINVAL, "retries is -2");
	o = good();
	o.workers_per_gpu = 100000;
	refused(&o, -EINVAL, "workers_per_gpu is 100000");
	int64_t *const limits[] = {
		&o.task_timeout_ms, &o.grace_ms, &o.setup_timeout_ms, &o.cleanup_timeout_ms, &o.kill_wait_ms};
	const char *const names[] = {
		"task_timeout_ms is", "grace_ms is", "setup_timeout_ms is", "cleanup_timeout_ms is", "kill_wait_ms is"};
	for (int i = 0; i < 5; i++) {
		o = good();
		*limits[i] = -1;
		refused(&o, -EINVAL, names[i]);
		*limits[i] = INT64_MAX;
		refused(&o, -EINVAL, names[i]);
	}
}

static void test_bad_size_settings_or_output_is_refused(void **state)
{
	(void)state;
	refused(NULL, -EINVAL, "struct gd_options is missing");
	struct gd_options o = good();
	o.size = 0;
	refused(&o, -EINVAL, "the size in struct gd_options is 0; set it to sizeof(struct gd_options)");
	o.size = 1 << 20;
	refused(&o, -EINVAL, "the size in struct gd_options is 1048576");
	o = good();
	o.num_settings = 1;
	refused(&o, -EINVAL, "num_settings is 1, but settings is NULL");
	const struct gd_setting no_value = {"key", NULL}, no_key = {NULL, "value"};
	o.settings = &no_value;
	refused(&o, -EINVAL, "setting 0 has no value");
	o.settings = &no_key;
	refused(&o, -EINVAL, "setting 0 has no key");
	o = good();
	o.output = GD_OUTPUT_FILES;
	refused(&o, -EINVAL, "output_dir");
	o.output = (enum gd_output)7;
	refused(&o, -EINVAL, "output is 7");
}

/* ---- Errors found when the pool is opened ------------------------------- */

static void not_opened(const struct gd_options *o, int code, const char *words)
{
	struct gd_error err = {0};
	struct gd_pool *p = (void *)1;
	assert_int_equal(gd_pool_open(o, &calls, &p, &err), code);
	assert_int_equal(err.code, code);
	check_contains(err.message, words);
	assert_ptr_equal(p, (void *)1);
}

static void test_open_without_the_gpus_fails_and_names_those_that_exist(void **state)
{
	(void)state;
	const int ids[] = {1, 7};
	struct gd_options o = good();
	setenv("GPUQ_GPUS", "sim:4", 1);
	o.gpus = NULL;
	o.gpu_ids = ids;
	o.num_gpu_ids = 2;
	not_opened(&o, -ENODEV, "GPU 7 does not exist; existing GPUs: 0, 1, 2, 3");
	unsetenv("GPUQ_GPUS");
	setenv("GPUQ_NVML_LIBRARY", "/nonexistent", 1);
	setenv("GPUQ_SYSFS_ROOT", "/nonexistent", 1);
	not_opened(&o, -ENODEV, "GPU 1 does not exist; this machine has none (sim:4 simulates four)");
	o.gpu_ids = NULL;
	o.num_gpu_ids = 0;
	not_opened(&o, -ENODEV, "no GPUs: this machine has none");
	o.gpus = "nonsense";
	not_opened(&o, -EINVAL, "nonsense");
	o.gpus = "sim:5000";
	o.workers_per_gpu = 2;
	struct gd_error err;
	struct gd_pool *p;
	assert_true(gd_pool_open(&o, &calls, &p, &err) < 0);
}

/* The GPUs of the workers by slot, as "0 1". */
static void opens_on(const char *gpus, const int *ids, size_t num_ids, const char *expected)
{
	struct gd_options o = good();
	o.gpus = gpus;
	o.gpu_ids = ids;
	o.num_gpu_ids = num_ids;
	struct gd_pool *p;
	struct gd_error err = {0};
	if (gd_pool_open(&o, &calls, &p, &err) < 0)
		fail_msg("%s", err.message);
	char seen[64] = "";
	struct gd_worker_stats worker;
	for (int slot = 0; gd_pool_worker_stats(p, slot, &worker, sizeof(worker)) == 0; slot++)
		sprintf(seen + strlen(seen), slot ? " %d" : "%d", worker.gpu);
	assert_string_equal(seen, expected);
	gd_pool_close(p, NULL, 0, NULL);
}

static void test_numbers_and_specifications_mean_the_simulated_gpus_of_the_variable(void **state)
{
	(void)state;
	setenv("GPUQ_GPUS", "sim:2", 1);
	opens_on(NULL, NULL, 0, "0 1");
	opens_on("auto", NULL, 0, "0 1");
	opens_on("all", NULL, 0, "0 1");
	opens_on("0,1", NULL, 0, "0 1");
	opens_on("1", NULL, 0, "1");
	opens_on(NULL, (const int[]){0, 1}, 2, "0 1");
	opens_on(NULL, (const int[]){1}, 1, "1");
	opens_on("sim:3", NULL, 0, "0 1 2");
}

static void *wait_at_gate(void *argument)
{
	(void)argument;
	board_pass_gate(0);
	return NULL;
}

static void test_forking_with_threads_is_refused(void **state)
{
	struct recorder *rec = *state;
	struct gd_options o = good();
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, wait_at_gate, NULL), 0);
	not_opened(&o, -EBUSY, "this program has 2 threads, so its workers cannot be forked: set worker_argv");
	assert_int_equal(recorder_run(rec, &echo), -EBUSY);
	check_contains(rec->err.message, "worker_argv");
	check_contains(rec->err.message, "allow_threads");
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	board_open_gate(0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* A thread that has ended no longer counts once it was joined. */
	for (int i = 0; i < 50; i++) {
		struct gd_pool *p;
		struct gd_error err;
		board_open_gate(0);
		assert_int_equal(pthread_create(&thread, NULL, wait_at_gate, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		int r = gd_pool_open(&o, &calls, &p, &err);
		if (r < 0)
			fail_msg("%s", err.message);
		assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	}
}

static void test_bad_source_is_refused_and_does_not_count_as_a_run(void **state)
{
	struct recorder *rec = *state;
	struct gd_error err;
	struct gd_options o = good();
	struct gd_dispatcher *d;
	assert_int_equal(gd_dispatcher_create(&o, &d, &err), 0);
	assert_int_equal(gd_dispatcher_run(d, NULL, &calls, &err), -EINVAL);
	check_contains(err.message, "struct gd_run is missing");
	struct gd_run run = rec->run;
	run.size = 3;
	assert_int_equal(gd_dispatcher_run(d, &run, &calls, &err), -EINVAL);
	check_contains(err.message, "sizeof(struct gd_run)");
	run = rec->run;
	run.generator = NULL;
	assert_int_equal(gd_dispatcher_run(d, &run, &calls, &err), -EINVAL);
	check_contains(err.message, "the run has no generator");
	const struct gd_callbacks deaf = {.size = sizeof(deaf)};
	assert_int_equal(gd_dispatcher_run(d, &rec->run, &deaf, &err), -EINVAL);
	check_contains(err.message, "no on_success");
	/* None of these calls started a run; the next one does. */
	assert_int_equal(gd_dispatcher_run(d, &rec->run, &calls, &err), 0);
	gd_dispatcher_destroy(d);
	gd_dispatcher_destroy(NULL);
}

/* ---- Copies ------------------------------------------------------------- */

static void test_options_are_copied_with_their_defaults(void **state)
{
	(void)state;
	char key[] = "key", value[] = "value", program[] = "program", argument[] = "argument", dir[] = "dir";
	char variable[] = "NAME=value";
	int ids[] = {2, 1};
	const char *argv[] = {program, argument, NULL}, *env[] = {variable, NULL};
	struct gd_setting setting = {key, value};
	struct gd_options o = good(), *copy = NULL;
	struct gd_error err;
	o.worker = NULL;
	o.gpus = NULL;
	o.worker_argv = argv;
	o.worker_env = env;
	o.gpu_ids = ids;
	o.num_gpu_ids = 2;
	o.settings = &setting;
	o.num_settings = 1;
	o.output_dir = dir;
	assert_int_equal(options_copy(&o, &copy, &err), 0);
	key[0] = value[0] = program[0] = argument[0] = dir[0] = variable[0] = 'X';
	argv[0] = NULL;
	ids[0] = 99;
	assert_string_equal(copy->settings[0].key, "key");
	assert_string_equal(copy->settings[0].value, "value");
	assert_string_equal(copy->worker_argv[0], "program");
	assert_string_equal(copy->worker_argv[1], "argument");
	assert_null(copy->worker_argv[2]);
	assert_string_equal(copy->worker_env[0], "NAME=value");
	assert_null(copy->worker_env[1]);
	assert_string_equal(copy->output_dir, "dir");
	assert_int_equal(copy->gpu_ids[0], 2);
	assert_true(copy->base_seed == 42);
	assert_int_equal(copy->queue_size, 1024);
	assert_int_equal(copy->workers_per_gpu, 1);
	assert_int_equal(copy->retries, 0);
	assert_int_equal(copy->task_timeout_ms, 0);
	assert_int_equal(copy->grace_ms, 1000);
	assert_int_equal(copy->setup_timeout_ms, 0);
	assert_int_equal(copy->cleanup_timeout_ms, 10000);
	assert_int_equal(copy->kill_wait_ms, 5000);
	options_free(copy);
	options_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_double_or_hookless_worker_is_refused),
		cmocka_unit_test(test_contradictory_gpu_options_are_refused),
		cmocka_unit_test(test_number_out_of_range_is_refused_by_name),
		cmocka_unit_test(test_bad_size_settings_or_output_is_refused),
		recorder_test(test_open_without_the_gpus_fails_and_names_those_that_exist),
		recorder_test(test_numbers_and_specifications_mean_the_simulated_gpus_of_the_variable),
		recorder_test(test_forking_with_threads_is_refused),
		recorder_test(test_bad_source_is_refused_and_does_not_count_as_a_run),
		cmocka_unit_test(test_options_are_copied_with_their_defaults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
