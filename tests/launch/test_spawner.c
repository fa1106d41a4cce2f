/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu_dispatch_launch.h"

#define LIMIT_MS 60000

static int answer_gpu(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	char text[64];
	snprintf(text, sizeof(text), "%d %s", gd_worker_gpu(w), getenv("GPUQ_GPU"));
	return gd_worker_result(w, text, strlen(text) + 1);
}

static int sleep_long(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	while (!gd_worker_cancelled(w))
		usleep(1000);
	return 0;
}

static int fail_on_gpu_1(struct gd_worker *w, void **ret)
{
	*ret = NULL;
	return gd_worker_gpu(w) == 1 ? gd_worker_fail(w, -EIO, "no model") : 0;
}

static int hang(struct gd_worker *w, void **ret)
{
	(void)w;
	*ret = NULL;
	for (;;)
		pause();
	return 0;
}

static const struct gd_worker_ops answers = {.process = answer_gpu};
static const struct gd_worker_ops sleepers = {.process = sleep_long};
static const struct gd_worker_ops half = {.setup = fail_on_gpu_1, .process = answer_gpu};
static const struct gd_worker_ops hangs = {.setup = hang, .process = answer_gpu};

/* Bit g: GPU g answered, isolated. */
static int on_success(void *context, const struct gd_event *e)
{
	int gpu = -1, bound = -2;
	if (sscanf(e->result.data, "%d %d", &gpu, &bound) == 2 && gpu == bound && gpu == e->gpu)
		*(unsigned *)context |= 1u << gpu;
	return 0;
}

static struct gd_spawner *start(const struct gd_worker_ops *ops, const char *gpus, void *context)
{
	struct gd_spawner *s = NULL;
	struct gd_error err = {0};
	struct gd_options o = {
		.size = sizeof(o), .worker = ops, .gpus = gpus, .on_success = on_success, .context = context};
	int r = gd_spawner_start(&o, &s, &err);
	if (r < 0)
		print_message("%s\n", err.message);
	assert_int_equal(r, 0);
	return s;
}

static void test_one_worker_per_gpu_each_on_its_own(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_spawner *s = start(&answers, "sim:3", &seen);
	assert_int_equal(gd_spawner_count(s), 3);
	assert_int_equal(gd_spawner_ready(s, LIMIT_MS), 3);
	assert_int_equal(gd_spawner_alive(s), 3);
	for (int slot = 0; slot < 3; slot++) {
		struct gd_worker_stats w;
		assert_int_equal(gd_spawner_status(s, slot, &w), 0);
		assert_int_equal(w.gpu, slot);
		assert_int_equal(w.state, GD_WORKER_STATE_IDLE);
		assert_true(w.pid > 0 && kill((pid_t)w.pid, 0) == 0);
	}
	assert_int_equal(gd_spawner_status(s, 3, &(struct gd_worker_stats){0}), -ENOENT);
	for (int i = 0; i < 300 && seen != 7; i++) {
		for (int k = 0; k < 3; k++)
			assert_int_equal(gd_pool_submit(gd_spawner_pool(s), "x", 1, NULL, 0, NULL), 0);
		assert_int_equal(gd_spawner_wait(s, LIMIT_MS), 0);
	}
	assert_true(seen & 1);
	assert_int_equal(gd_spawner_end(s, NULL, NULL), 0);
	assert_int_equal(gd_spawner_end(NULL, NULL, NULL), 0);
}

static void test_wait_times_out_and_end_leaves_no_worker(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_spawner *s = start(&sleepers, "sim:2", &seen);
	assert_int_equal(gd_spawner_ready(s, LIMIT_MS), 2);
	struct gd_worker_stats w[2];
	for (int slot = 0; slot < 2; slot++) {
		assert_int_equal(gd_pool_submit(gd_spawner_pool(s), "x", 1, NULL, 0, NULL), 0);
		assert_int_equal(gd_spawner_status(s, slot, &w[slot]), 0);
	}
	assert_int_equal(gd_spawner_wait(s, 20), -ETIMEDOUT);
	struct gd_stats stats;
	assert_int_equal(gd_spawner_end(s, &stats, NULL), 0);
	assert_int_equal(stats.workers_alive, 0);
	for (int slot = 0; slot < 2; slot++)
		assert_true(kill((pid_t)w[slot].pid, 0) < 0 && errno == ESRCH);
}

static void test_worker_whose_setup_fails_is_not_ready(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_spawner *s = start(&half, "sim:2", &seen);
	assert_int_equal(gd_spawner_ready(s, LIMIT_MS), 1);
	assert_int_equal(gd_spawner_alive(s), 1);
	struct gd_worker_stats w;
	assert_int_equal(gd_spawner_status(s, 1, &w), 0);
	assert_int_equal(w.state, GD_WORKER_STATE_LOST);
	assert_int_equal(gd_spawner_end(s, NULL, NULL), 0);
}

static void test_setup_that_hangs_is_waited_for_no_longer_than_said(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_spawner *s = start(&hangs, "sim:1", &seen);
	assert_int_equal(gd_spawner_ready(s, 20), -ETIMEDOUT);
	assert_int_equal(gd_spawner_end(s, NULL, NULL), 0);
}

static void test_gpus_that_are_not_there_start_nothing(void **state)
{
	(void)state;
	struct gd_spawner *s = NULL;
	struct gd_error err = {0};
	struct gd_options o = {.size = sizeof(o), .worker = &answers, .gpus = "rubbish", .on_success = on_success};
	assert_true(gd_spawner_start(&o, &s, &err) < 0);
	assert_null(s);
	assert_non_null(strstr(err.message, "rubbish"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_worker_per_gpu_each_on_its_own),
		cmocka_unit_test(test_wait_times_out_and_end_leaves_no_worker),
		cmocka_unit_test(test_worker_whose_setup_fails_is_not_ready),
		cmocka_unit_test(test_setup_that_hangs_is_waited_for_no_longer_than_said),
		cmocka_unit_test(test_gpus_that_are_not_there_start_nothing),
	};
	return cmocka_run_group_tests_name("launch_spawner", tests, NULL, NULL);
}
