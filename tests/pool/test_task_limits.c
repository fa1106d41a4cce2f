/* SPDX-License-Identifier: MIT */
/* Time limits of single tasks, and the tasks of a batch that times out. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>

#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define SHORT_MS 20
#define LONG_MS  (10 * WAIT_MS)

enum { ANSWER, LOOK, HANG, GATE };

/* False if the task was given up. */
static bool do_job(struct gd_worker *w, size_t i, uint32_t what)
{
	if (what == HANG)
		process_hang();
	if (what == GATE)
		board_pass_gate(0);
	while (what == LOOK && !gd_worker_cancelled(w, i))
		poll(NULL, 0, 1);
	return what != LOOK;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->begun, 1);
	return do_job(w, 0, job.what) ? pool_rig_reply(w, &job) : -EINTR;
}

/* Answers when all are done, or gives up all of them. Records the sizes of the batches. */
static int process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	atomic_store(&board->words[atomic_fetch_add(&board->notes[0], 1) % 64], num_tasks);
	atomic_fetch_add(&board->begun, (int)num_tasks);
	for (size_t i = 0; i < num_tasks; i++)
		if (!do_job(w, i, pool_rig_job(&tasks[i]).what))
			return -EINTR;
	for (size_t i = 0; i < num_tasks; i++) {
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		gd_worker_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
static const struct gd_worker_ops batches = {
	.size = sizeof(struct gd_worker_ops), .process_batch = process_batch, .max_batch = 8};

static void open_one(struct pool_rig *rig, const struct gd_worker_ops *worker, int64_t timeout_ms, int64_t grace_ms)
{
	rig->options.gpus = "sim:1";
	rig->options.task_timeout_ms = timeout_ms;
	rig->options.grace_ms = grace_ms;
	pool_rig_open(rig, worker);
	pool_rig_pid(rig, 0, 0);
}

static void submit(struct pool_rig *rig, uint32_t what, int64_t timeout_ms)
{
	rig->timeout_ms = timeout_ms;
	pool_rig_submit(rig, what, 0);
}

/* The worker has a task, and later tasks wait in its inbox until the gate opens. */
static void hold_worker(struct pool_rig *rig)
{
	submit(rig, GATE, 0);
	board_await(&board->begun, 1);
}

/* ---- Limits of single tasks --------------------------------------------- */

static void test_a_task_has_a_limit_in_a_pool_that_has_none(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &ops, 0, LONG_MS);
	submit(rig, LOOK, SHORT_MS);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->failure.event.timeout_ms, SHORT_MS);
	assert_string_equal(rig->failure.message, "not finished within 20 ms");
	submit(rig, ANSWER, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_that_ignores_its_own_limit_is_killed(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &ops, 0, 5);
	submit(rig, HANG, SHORT_MS);
	submit(rig, ANSWER, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->successes, 1);
	assert_string_equal(rig->failure.message, "not finished within 20 ms; its worker did not stop and was killed");
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_may_have_longer_than_the_others(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.workers_per_gpu = 2;
	open_one(rig, &ops, SHORT_MS, LONG_MS);
	pool_rig_pid(rig, 1, 0);
	submit(rig, GATE, LONG_MS);
	board_await(&board->begun, 1);
	submit(rig, LOOK, 0);
	while (rig->timeouts == 0)
		gd_pool_poll(rig->pool, WAIT_MS, 0);
	assert_int_equal(rig->failure.event.id, 1);
	assert_int_equal(rig->failure.event.timeout_ms, SHORT_MS);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* The warden must notice its start, although it is not woken for it. */
static void test_a_time_limit_applies_to_a_task_behind_one_without_a_limit(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &batches, 0, LONG_MS);
	hold_worker(rig);
	submit(rig, LOOK, SHORT_MS);
	assert_int_equal(pool_rig_worker(rig, 0).queued, 1);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_wrong_limits_are_refused(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &ops, 0, LONG_MS);
	struct gd_task_options options = {.size = sizeof(options), .timeout_ms = -1};
	assert_int_equal(gd_pool_submit(rig->pool, "x", 1, NULL, &options, NULL), -EINVAL);
	options.timeout_ms = INT64_MAX;
	assert_int_equal(gd_pool_submit(rig->pool, "x", 1, NULL, &options, NULL), -EINVAL);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Batches ------------------------------------------------------------ */

static void test_only_tasks_with_the_same_limit_share_a_batch(void **state)
{
	static const int64_t limits[] = {LONG_MS, LONG_MS, LONG_MS + 1, LONG_MS + 1, LONG_MS, 0, 0};
	static const uint64_t sizes[] = {1, 2, 2, 1, 2};
	struct pool_rig *rig = *state;
	open_one(rig, &batches, 0, LONG_MS);
	hold_worker(rig);
	for (size_t i = 0; i < 7; i++)
		submit(rig, ANSWER, limits[i]);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 8);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(board->words[i], sizes[i]);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* Two of a batch of five are to blame: these time out, each by itself. False if another task was late, too. */
static bool batch_is_repeated(struct pool_rig *rig, int64_t grace_ms, uint32_t guilty, uint64_t restarts)
{
	open_one(rig, &batches, 0, grace_ms);
	hold_worker(rig);
	for (int i = 0; i < 5; i++)
		submit(rig, i == 1 || i == 3 ? guilty : ANSWER, 300);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->starts, 6);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 0);
	if (rig->timeouts > 2 || rig->close_stats.restarts > restarts)
		return false;
	assert_int_equal(rig->close_stats.restarts, restarts);
	assert_int_equal(rig->timeouts, 2);
	assert_int_equal(rig->successes, 4);
	assert_int_equal(board->words[1], 5);
	for (int i = 2; i < 7; i++)
		assert_int_equal(board->words[i], 1);
	return true;
}

static void test_a_batch_out_of_time_is_repeated_task_by_task(void **state)
{
	pool_rig_try(batch_is_repeated(pool_rig_again(state), LONG_MS, LOOK, 0));
}

static void test_a_batch_killed_for_its_time_is_repeated_task_by_task(void **state)
{
	pool_rig_try(batch_is_repeated(pool_rig_again(state), 5, HANG, 3));
}

/* The repeated tasks still have their retries. False if the other task was late, too. */
static bool guilty_task_is_retried(struct pool_rig *rig)
{
	rig->options.retries = 2;
	open_one(rig, &batches, 0, LONG_MS);
	hold_worker(rig);
	submit(rig, ANSWER, 150);
	submit(rig, LOOK, 150);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->failure.event.attempt, 3);
	assert_int_equal(pool_rig_close(rig), 0);
	if (rig->close_stats.retries > 2)
		return false;
	assert_int_equal(rig->close_stats.retries, 2);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->successes, 2);
	return true;
}

static void test_a_guilty_task_of_a_batch_is_retried(void **state)
{
	pool_rig_try(guilty_task_is_retried(pool_rig_again(state)));
}

/* False if the batch timed out before the stop. */
static bool stop_ends_the_batch(struct pool_rig *rig)
{
	open_one(rig, &batches, 0, LONG_MS);
	hold_worker(rig);
	submit(rig, ANSWER, 150);
	submit(rig, LOOK, 150);
	board_open_gate(0);
	board_await(&board->begun, 3);
	gd_pool_stop(rig->pool);
	int r;
	while ((r = gd_pool_poll(rig->pool, WAIT_MS, 0)) >= 0)
		;
	assert_int_equal(r, -ECANCELED);
	assert_int_equal(pool_rig_close(rig), 0);
	return rig->successes == 1 && rig->timeouts == 2;
}

static void test_nothing_is_repeated_after_a_stop(void **state)
{
	pool_rig_try(stop_ends_the_batch(pool_rig_again(state)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_task_has_a_limit_in_a_pool_that_has_none),
		pool_rig_test(test_a_task_that_ignores_its_own_limit_is_killed),
		pool_rig_test(test_a_task_may_have_longer_than_the_others),
		pool_rig_test(test_a_time_limit_applies_to_a_task_behind_one_without_a_limit),
		pool_rig_test(test_wrong_limits_are_refused),
		pool_rig_test(test_only_tasks_with_the_same_limit_share_a_batch),
		pool_rig_test(test_a_batch_out_of_time_is_repeated_task_by_task),
		pool_rig_test(test_a_batch_killed_for_its_time_is_repeated_task_by_task),
		pool_rig_test(test_a_guilty_task_of_a_batch_is_retried),
		pool_rig_test(test_nothing_is_repeated_after_a_stop),
	};
	return cmocka_run_group_tests_name("pool task limits", tests, NULL, NULL);
}
