/* SPDX-License-Identifier: MIT */
/* Where files are processed, how many workers load at a time, and the effect of loading on the statistics. */
#include "launch_rig.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support/board.h"
#include "support/check.h"

/* The GPU on which each file ended, by its first letter; -1: none. */
static int gpu_of[128];
static int ended_on_second;

static void on_result_note(void *context, const struct gd_file_result *r)
{
	(void)context;
	gpu_of[(unsigned char)r->file[0]] = (int)r->gpu;
	ended_on_second += r->gpu == 1;
	if (ended_on_second == 4)
		atomic_store(&board->go, 1);
}

static struct gd_launch_options options_that_note(void)
{
	struct gd_launch_options o = launch_rig_options();
	o.on_result = on_result_note;
	memset(gpu_of, -1, sizeof(gpu_of));
	ended_on_second = 0;
	return o;
}

/* The first file occupies GPU 0 until GPU 1 has done its own files; from a common queue GPU 1 would have taken all. */
static void test_round_robin_decides_where_a_file_runs(void **state)
{
	(void)state;
	scratch_put("in/aw.wav", 1);
	launch_rig_put('b', 'h', "", 1);
	struct gd_launch_options o = options_that_note();
	o.balance = GD_BALANCE_ROUND_ROBIN;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	for (char c = 'a'; c <= 'h'; c++)
		assert_int_equal(gpu_of[(unsigned char)c], (c - 'a') % 2);
	assert_int_equal(s->num_gpus, 2);
	assert_int_equal(s->gpus[0]->files, 4);
	assert_int_equal(s->gpus[1]->files, 4);
	gd_launch_summary_free(s);
}

static int all_on_second(
	void *context, const struct gd_found *const *files, size_t count, size_t num_gpus, size_t *ret_gpus)
{
	(void)context, (void)files;
	assert_int_equal(num_gpus, 2);
	for (size_t i = 0; i < count; i++)
		ret_gpus[i] = 1;
	return 0;
}

static void test_strategy_decides_where_a_file_runs(void **state)
{
	(void)state;
	launch_rig_put('a', 'e', "", 1);
	struct gd_launch_options o = options_that_note();
	o.strategy = all_on_second;
	o.workers_per_gpu = 2;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	assert_int_equal(s->gpus[0]->files, 0);
	assert_int_equal(s->gpus[1]->files, 5);
	gd_launch_summary_free(s);
}

static void test_file_that_is_tried_again_stays_on_its_gpu(void **state)
{
	(void)state;
	launch_rig_put('a', 'f', "o", 1);
	struct gd_launch_options o = options_that_note();
	o.strategy = all_on_second;
	o.retries = 1;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 6});
	assert_int_equal(s->gpus[1]->files, 6);
	gd_launch_summary_free(s);
}

static int fail_on_second(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	return gd_worker_gpu(w) == 1 ? gd_worker_fail(w, -EIO, "no model here") : 0;
}

static void test_gpu_without_workers_leaves_its_files_to_the_others(void **state)
{
	(void)state;
	struct gd_worker_ops ops = launch_rig_worker;
	ops.setup = fail_on_second;
	launch_rig_put('a', 'f', "", 1);
	struct gd_launch_options o = options_that_note();
	o.worker = &ops;
	o.strategy = all_on_second;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 6});
	assert_int_equal(s->gpus[0]->files, 6);
	gd_launch_summary_free(s);
}

static int beyond(void *context, const struct gd_found *const *files, size_t count, size_t num_gpus, size_t *ret_gpus)
{
	(void)context, (void)files;
	for (size_t i = 0; i < count; i++)
		ret_gpus[i] = num_gpus;
	return 0;
}

static void test_strategy_that_names_no_gpu_is_refused(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	struct gd_launch_options o = options_that_note();
	o.strategy = beyond;
	assert_null(launch_rig_launch(&o, -EINVAL));
}

/* ---- Failures ------------------------------------------------------------ */

static void test_no_file_begins_after_the_last_failure_that_is_allowed(void **state)
{
	(void)state;
	launch_rig_put('a', 'z', "f", 1);
	struct gd_launch_options o = options_that_note();
	o.gpus = "sim:1";
	for (uint64_t most = 1; most <= 3; most++) {
		o.max_failures = most;
		launch_rig_run(&o, -EDQUOT, (struct launch_counts){.failed = (int)most, .left = 26 - (int)most});
	}
	/* With two workers, the one that had a file at that moment finishes it. */
	o.gpus = "sim:2";
	o.max_failures = 1;
	struct gd_launch_summary *s = launch_rig_launch(&o, -EDQUOT);
	assert_true(s->files_failed <= 2);
	gd_launch_summary_free(s);
}

/* ---- Loading ------------------------------------------------------------- */

/* In the board's notes: how many setups run now, and the most so far. */
static int count_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	int now = atomic_fetch_add(&board->notes[1], 1) + 1, most = atomic_load(&board->notes[2]);
	while (now > most && !atomic_compare_exchange_weak(&board->notes[2], &most, now))
		;
	usleep(20000);
	atomic_fetch_sub(&board->notes[1], 1);
	return 0;
}

static void test_no_more_models_load_at_a_time_than_allowed(void **state)
{
	(void)state;
	struct gd_worker_ops ops = launch_rig_worker;
	ops.setup = count_setup;
	launch_rig_put('a', 'f', "", 1);
	struct gd_launch_options o = options_that_note();
	o.gpus = "sim:4";
	o.worker = &ops;
	o.balance = GD_BALANCE_ROUND_ROBIN; /* so that all workers are needed */
	o.setup_concurrency = 1;
	launch_rig_run(&o, 0, (struct launch_counts){.done = 6});
	assert_int_equal(atomic_load(&board->notes[2]), 1);
}

static int wait_in_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	board_await(&board->go, 1);
	return 0;
}

static void on_progress_end_setup(void *context, const struct gd_launch_progress *p)
{
	(void)context;
	if (p->summary->wall_seconds >= 0.5)
		atomic_store(&board->go, 1);
}

static void test_speedup_does_not_count_loading(void **state)
{
	(void)state;
	struct gd_worker_ops ops = launch_rig_worker;
	ops.setup = wait_in_setup;
	launch_rig_put('a', 'd', "", 1);
	struct gd_launch_options o = options_that_note();
	o.worker = &ops;
	o.on_progress = on_progress_end_setup;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	assert_true(s->loading_seconds >= 0.45 && s->loading_seconds <= s->wall_seconds);
	assert_true(fabs(s->speedup * (s->wall_seconds - s->loading_seconds) - s->processing_seconds) < 1e-6);
	gd_launch_summary_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_rig_test(test_round_robin_decides_where_a_file_runs),
		launch_rig_test(test_strategy_decides_where_a_file_runs),
		launch_rig_test(test_file_that_is_tried_again_stays_on_its_gpu),
		launch_rig_test(test_gpu_without_workers_leaves_its_files_to_the_others),
		launch_rig_test(test_strategy_that_names_no_gpu_is_refused),
		launch_rig_test(test_no_file_begins_after_the_last_failure_that_is_allowed),
		launch_rig_test(test_no_more_models_load_at_a_time_than_allowed),
		launch_rig_test(test_speedup_does_not_count_loading),
	};
	return cmocka_run_group_tests_name("launch_launcher_placement", tests, NULL, NULL);
}
