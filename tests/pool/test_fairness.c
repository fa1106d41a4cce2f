/* SPDX-License-Identifier: MIT */
/* Nobody waits for what does not concern him: tasks that are tried again, workers with nothing to do. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "support/board.h"
#include "support/process.h"

enum { ANSWER, LONG, FAIL_FIRST };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == LONG) {
		atomic_store(&board->begun, 1);
		board_await(&board->go, 1);
	}
	if (job.what == FAIL_FIRST)
		atomic_store(&board->notes[gd_worker_attempt(w, 0)], gd_worker_slot(w) + 1);
	if (job.what == FAIL_FIRST && gd_worker_attempt(w, 0) == 1) {
		poll(NULL, 0, 10); /* so long that nothing is handed out ahead */
		return gd_worker_fail(w, -EIO, "the first time");
	}
	return pool_rig_reply(w, &job);
}

/* ---- Tried again -------------------------------------------------------- */

static bool five_done(struct pool_rig *rig)
{
	return rig->successes >= 5;
}

static void test_a_retry_that_waits_for_a_busy_worker_holds_up_nobody(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit(rig, LONG, 0);
	board_await(&board->begun, 1);
	pool_rig_submit(rig, FAIL_FIRST, 0);
	pool_rig_submit_many(rig, 5);
	pool_rig_await(rig, five_done);
	assert_int_equal(rig->ends[0], 0); /* the long one */
	assert_int_equal(rig->ends[1], 0); /* waits for its worker */
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 7);
	assert_int_not_equal(atomic_load(&board->notes[1]), atomic_load(&board->notes[2]));
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 1);
}

static int second_is_never_ready(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		process_hang();
	return 0;
}

static void test_a_retry_does_not_wait_for_an_endless_setup(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = second_is_never_ready, .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &ops);
	for (int i = 0; i < 3; i++)
		pool_rig_submit(rig, FAIL_FIRST, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 3);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 3);
}

/* ---- Nothing to do ------------------------------------------------------ */

static int second_waits(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		board_await(&board->go, 1);
	return 0;
}

static int work_on_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	atomic_store(&board->begun, (int)num_tasks);
	board_await(&board->go, 2);
	for (size_t i = 0; i < num_tasks; i++) {
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		if (gd_worker_batch_result(w, i, &answer, sizeof(answer)) < 0)
			return -EIO;
	}
	return 0;
}

static long voluntary_switches(void)
{
	struct rusage usage;
	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void test_an_idle_worker_beside_a_busy_batch_wakes_nobody(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = second_waits,
		.process_batch = work_on_batch,
		.max_batch = 8};
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pid_t busy = pool_rig_pid(rig, 0, 0);
	/* Stopped, it finds all five at once when it goes on. */
	assert_int_equal(kill(busy, SIGSTOP), 0);
	pool_rig_submit_many(rig, 5);
	assert_int_equal(kill(busy, SIGCONT), 0);
	board_await(&board->begun, 5);
	atomic_store(&board->go, 1);
	pool_rig_pid(rig, 1, 0);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		; /* that they have started, and whatever else is due */

	long before = voluntary_switches();
	assert_int_equal(gd_pool_poll(rig->pool, 200, 0), 0);
	/* Once a millisecond would be 200. */
	assert_in_range(voluntary_switches() - before, 0, 30);
	atomic_store(&board->go, 2);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_retry_that_waits_for_a_busy_worker_holds_up_nobody),
		pool_rig_test(test_a_retry_does_not_wait_for_an_endless_setup),
		pool_rig_test(test_an_idle_worker_beside_a_busy_batch_wakes_nobody),
	};
	return cmocka_run_group_tests_name("pool fairness", tests, NULL, NULL);
}
