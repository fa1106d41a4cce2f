/* SPDX-License-Identifier: MIT */
/* Bars of jobs on GPUs: which bars, where, and how many if there are many jobs. */
#include "model_rig.h"
#include "view/web/timeline.h"

static void put(uint64_t id, int gpu, int64_t start_ms, int64_t end_ms, enum view_job_state state)
{
	struct view_attempt a = {.start_ms = start_ms,
		.end_ms = end_ms,
		.duration_ms = end_ms < 0 ? -1 : end_ms - start_ms,
		.state = state,
		.gpus = &gpu,
		.num_gpus = 1};
	struct view_job job = {.id = id, .command = "x", .state = state, .attempts = &a, .num_attempts = 1};
	assert_int_equal(view_put_job(model, &job), 0);
}

static void test_each_job_has_its_bar(void **state)
{
	struct timeline t;
	(void)state;
	put(1, 0, 1000, 5000, VIEW_JOB_COMPLETED);
	put(2, 1, 2000, 6000, VIEW_JOB_FAILED);
	put(3, 0, 5000, -1, VIEW_JOB_RUNNING);
	assert_int_equal(timeline_build(model, 1, 10001, 10, &t), 0);
	assert_int_equal(t.num_bars, 3);
	assert_int_equal(t.bars[0].id, 1);
	assert_int_equal(t.bars[1].id, 3);
	assert_int_equal(t.bars[1].end_ms, -1);
	assert_int_equal(t.bars[1].lane, 0);
	assert_int_equal(t.bars[2].gpu, 1);
	assert_int_equal(t.bars[2].failed, 1);
	unsigned good = 0, bad = 0;
	for (int i = 0; i < TIMELINE_BINS; i++) {
		good += t.bins[i].completed;
		bad += t.bins[i].failed;
	}
	assert_int_equal(good, 1);
	assert_int_equal(bad, 1);
	timeline_finish(&t);
}

/* The end of a job is drawn at its time, no matter when the picture was made. */
static void test_slices_of_throughput_stay_in_place(void **state)
{
	struct timeline t;
	(void)state;
	put(1, 0, 100000, 203000, VIEW_JOB_COMPLETED);
	for (int64_t to = 300000; to < 320000; to += 700) {
		assert_int_equal(timeline_build(model, to - 300000, to, 10, &t), 0);
		assert_int_equal(t.bin_ms, 5000);
		assert_int_equal(t.bins_from_ms % t.bin_ms, 0);
		assert_int_equal(t.bins[(200000 - t.bins_from_ms) / t.bin_ms].completed, 1);
		timeline_finish(&t);
	}
}

static void test_jobs_outside_the_window_have_no_bar(void **state)
{
	struct timeline t;
	(void)state;
	put(1, 0, 100, 200, VIEW_JOB_COMPLETED);
	put(2, 0, 900, 1100, VIEW_JOB_COMPLETED);
	put(3, 0, 3000, 4000, VIEW_JOB_COMPLETED);
	assert_int_equal(timeline_build(model, 1000, 2000, 1, &t), 0);
	assert_int_equal(t.num_bars, 1);
	assert_int_equal(t.bars[0].id, 2);
	timeline_finish(&t);
}

static void test_jobs_at_the_same_time_get_lanes(void **state)
{
	struct timeline t;
	(void)state;
	put(1, 0, 1000, 9000, VIEW_JOB_COMPLETED);
	put(2, 0, 2000, 3000, VIEW_JOB_COMPLETED);
	put(3, 0, 4000, 5000, VIEW_JOB_COMPLETED);
	for (uint64_t id = 10; id < 30; id++)
		put(id, 1, 1000, 9000, VIEW_JOB_COMPLETED);
	assert_int_equal(timeline_build(model, 1, 10001, 10, &t), 0);
	assert_int_equal(t.bars[0].lane, 0);
	assert_int_equal(t.bars[1].lane, 1);
	assert_int_equal(t.bars[2].lane, 1);
	for (size_t i = 0; i < t.num_bars; i++)
		assert_in_range(t.bars[i].lane, 0, TIMELINE_LANES - 1);
	timeline_finish(&t);
}

static void test_many_short_jobs_are_few_bars_and_none_is_lost(void **state)
{
	struct timeline t;
	unsigned count = 0, failed = 0;
	(void)state;
	for (uint64_t id = 1; id <= 20000; id++)
		put(id, (int)(id % 4), (int64_t)id * 10, (int64_t)id * 10 + 9,
			id % 100 ? VIEW_JOB_COMPLETED : VIEW_JOB_FAILED);
	assert_int_equal(timeline_build(model, 1, 200100, 500, &t), 0);
	assert_true(t.num_bars <= 4 * TIMELINE_LANES * 2 * 400);
	assert_true(t.num_bars < 100);
	for (size_t i = 0; i < t.num_bars; i++) {
		count += t.bars[i].count;
		failed += t.bars[i].failed;
	}
	assert_int_equal(count, 20000);
	assert_int_equal(failed, 200);
	timeline_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		model_rig_test(test_each_job_has_its_bar),
		model_rig_test(test_jobs_outside_the_window_have_no_bar),
		model_rig_test(test_slices_of_throughput_stay_in_place),
		model_rig_test(test_jobs_at_the_same_time_get_lanes),
		model_rig_test(test_many_short_jobs_are_few_bars_and_none_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
