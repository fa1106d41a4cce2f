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

#include "gpu_dispatch.h"

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
	while (!gd_worker_cancelled(w, 0))
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

static const struct gd_worker_ops answers = {.size = sizeof(struct gd_worker_ops), .process = answer_gpu};
static const struct gd_worker_ops sleepers = {.size = sizeof(struct gd_worker_ops), .process = sleep_long};
static const struct gd_worker_ops half = {
	.size = sizeof(struct gd_worker_ops), .setup = fail_on_gpu_1, .process = answer_gpu};
static const struct gd_worker_ops hangs = {.size = sizeof(struct gd_worker_ops), .setup = hang, .process = answer_gpu};

/* Sets bit g if GPU g answered, bound to that GPU. */
static int on_success(void *context, const struct gd_event *e)
{
	int gpu = -1, bound = -2;
	if (sscanf(e->result.data, "%d %d", &gpu, &bound) == 2 && gpu == bound && gpu == e->gpu)
		*(unsigned *)context |= 1u << gpu;
	return 0;
}

static struct gd_stats stats_of(const struct gd_pool *p)
{
	struct gd_stats stats;
	gd_pool_stats(p, &stats, sizeof(stats));
	return stats;
}

static struct gd_pool *start(const struct gd_worker_ops *ops, const char *gpus, void *context)
{
	struct gd_pool *p = NULL;
	struct gd_error err = {0};
	struct gd_options o = {.size = sizeof(o), .worker = ops, .gpus = gpus};
	struct gd_callbacks calls = {.size = sizeof(calls), .context = context, .on_success = on_success};
	int r = gd_pool_open(&o, &calls, &p, &err);
	if (r < 0)
		print_message("%s\n", err.message);
	assert_int_equal(r, 0);
	return p;
}

static void test_one_worker_per_gpu_each_on_its_own(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_pool *p = start(&answers, "sim:3", &seen);
	assert_int_equal(stats_of(p).workers, 3);
	assert_int_equal(gd_pool_wait_ready(p, LIMIT_MS), 3);
	assert_int_equal(stats_of(p).workers_alive, 3);
	for (int slot = 0; slot < 3; slot++) {
		struct gd_worker_stats w;
		assert_int_equal(gd_pool_worker_stats(p, slot, &w, sizeof(struct gd_worker_stats)), 0);
		assert_int_equal(w.gpu, slot);
		assert_int_equal(w.state, GD_WORKER_STATE_IDLE);
		assert_true(w.pid > 0 && kill((pid_t)w.pid, 0) == 0);
	}
	assert_int_equal(
		gd_pool_worker_stats(p, 3, &(struct gd_worker_stats){0}, sizeof(struct gd_worker_stats)), -ENOENT);
	for (int i = 0; i < 300 && seen != 7; i++) {
		for (int k = 0; k < 3; k++)
			assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
		assert_int_equal(gd_pool_wait(p, LIMIT_MS), 0);
	}
	assert_true(seen & 1);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	assert_int_equal(gd_pool_close(NULL, NULL, 0, NULL), 0);
}

static void test_wait_times_out_and_end_leaves_no_worker(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_pool *p = start(&sleepers, "sim:2", &seen);
	assert_int_equal(gd_pool_wait_ready(p, LIMIT_MS), 2);
	struct gd_worker_stats w[2];
	for (int slot = 0; slot < 2; slot++) {
		assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
		assert_int_equal(gd_pool_worker_stats(p, slot, &w[slot], sizeof(struct gd_worker_stats)), 0);
	}
	assert_int_equal(gd_pool_wait(p, 20), -ETIMEDOUT);
	struct gd_stats stats;
	assert_int_equal(gd_pool_close(p, &stats, sizeof(stats), NULL), 0);
	assert_int_equal(stats.workers_alive, 0);
	for (int slot = 0; slot < 2; slot++)
		assert_true(kill((pid_t)w[slot].pid, 0) < 0 && errno == ESRCH);
}

static void test_worker_whose_setup_fails_is_not_ready(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_pool *p = start(&half, "sim:2", &seen);
	assert_int_equal(gd_pool_wait_ready(p, LIMIT_MS), 1);
	assert_int_equal(stats_of(p).workers_alive, 1);
	struct gd_worker_stats w;
	assert_int_equal(gd_pool_worker_stats(p, 1, &w, sizeof(struct gd_worker_stats)), 0);
	assert_int_equal(w.state, GD_WORKER_STATE_LOST);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_setup_that_hangs_is_waited_for_no_longer_than_the_timeout(void **state)
{
	(void)state;
	unsigned seen = 0;
	struct gd_pool *p = start(&hangs, "sim:1", &seen);
	assert_int_equal(gd_pool_wait_ready(p, 20), -ETIMEDOUT);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_missing_gpus_start_nothing(void **state)
{
	(void)state;
	struct gd_pool *p = NULL;
	struct gd_error err = {0};
	struct gd_options o = {.size = sizeof(o), .worker = &answers, .gpus = "rubbish"};
	struct gd_callbacks calls = {.size = sizeof(calls), .on_success = on_success};
	assert_true(gd_pool_open(&o, &calls, &p, &err) < 0);
	assert_null(p);
	assert_non_null(strstr(err.message, "rubbish"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_worker_per_gpu_each_on_its_own),
		cmocka_unit_test(test_wait_times_out_and_end_leaves_no_worker),
		cmocka_unit_test(test_worker_whose_setup_fails_is_not_ready),
		cmocka_unit_test(test_setup_that_hangs_is_waited_for_no_longer_than_the_timeout),
		cmocka_unit_test(test_missing_gpus_start_nothing),
	};
	return cmocka_run_group_tests_name("pool_wait", tests, NULL, NULL);
}
