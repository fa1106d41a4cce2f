/* SPDX-License-Identifier: MIT */
/* Workers that are replaced after a number of tasks, or when they have grown too large. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool_rig.h"
#include "support/board.h"
#include "support/wait.h"

#define LARGE ((size_t)64 << 20)
#define LIMIT ((uint64_t)48 << 20)

enum { NOTE_TOO_MANY, NOTE_SEED_CHANGED };
enum { JOB_ANSWER, JOB_GROW, JOB_GROW_SLOWLY };

static uint64_t done_here; /* by this process */

/* The seed of each slot is the same in all its processes. */
static void check_seed(const struct gd_worker *w)
{
	uint64_t mine = (uint64_t)gd_worker_seed(w), none = 0;
	if (!atomic_compare_exchange_strong(&board->words[32 + gd_worker_slot(w)], &none, mine) && none != mine)
		atomic_fetch_add(&board->notes[NOTE_SEED_CHANGED], 1);
}

static void count_task(struct gd_worker *w)
{
	atomic_fetch_add(&board->begun, 1);
	if (++done_here > atomic_load(&board->words[0]))
		atomic_fetch_add(&board->notes[NOTE_TOO_MANY], 1);
	check_seed(w);
}

static int count_and_reply(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	count_task(w);
	return pool_rig_just_reply(w, state, task);
}

static int count_and_reply_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	for (size_t i = 0; i < num_tasks; i++) {
		count_task(w);
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		gd_worker_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static const struct gd_worker_ops single = {
	.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process = count_and_reply,
	.cleanup = pool_rig_note_cleanup,
};
static const struct gd_worker_ops batches = {
	.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process_batch = count_and_reply_batch,
	.max_batch = 4,
	.cleanup = pool_rig_note_cleanup,
};

static void open_limited(struct pool_rig *rig, const struct gd_worker_ops *ops, const char *gpus, uint64_t most)
{
	rig->options.gpus = gpus;
	rig->options.max_tasks_per_worker = most;
	atomic_store(&board->words[0], most);
	pool_rig_open(rig, ops);
}

/* Every task was begun once and succeeded; every worker was cleaned up. */
static void close_and_check(struct pool_rig *rig, size_t num_tasks)
{
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, num_tasks);
	assert_int_equal(rig->starts, num_tasks);
	assert_int_equal(atomic_load(&board->begun), num_tasks);
	assert_int_equal(atomic_load(&board->notes[NOTE_TOO_MANY]), 0);
	assert_int_equal(atomic_load(&board->notes[NOTE_SEED_CHANGED]), 0);
	assert_int_equal(atomic_load(&board->cleanups), atomic_load(&board->setups));
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(rig->cleanup_failures, 0);
}

static void test_worker_is_replaced_after_its_number_of_tasks(void **state)
{
	struct pool_rig *rig = *state;
	open_limited(rig, &single, "sim:1", 3);
	pool_rig_submit_many(rig, 20);
	close_and_check(rig, 20);
	assert_int_equal(rig->close_stats.restarts, 6);
	assert_int_equal(atomic_load(&board->setups), 7);
}

static void test_one_task_per_worker_and_a_long_queue_lose_nothing(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.ordered = 1;
	open_limited(rig, &single, "sim:1", 1);
	pool_rig_submit_many(rig, 100);
	close_and_check(rig, 100);
	assert_true(rig->close_stats.restarts >= 99);
	assert_false(rig->out_of_order);
}

static void test_batches_do_not_exceed_the_limit(void **state)
{
	struct pool_rig *rig = *state;
	open_limited(rig, &batches, "sim:2", 6);
	pool_rig_submit_many(rig, 300);
	close_and_check(rig, 300);
	assert_true(rig->close_stats.restarts >= 300 / 6 - 2);
}

static void test_results_stay_in_order(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.ordered = 1;
	open_limited(rig, &single, "sim:2", 10);
	pool_rig_submit_many(rig, 500);
	close_and_check(rig, 500);
	assert_false(rig->out_of_order);
}

static int crash_in_cleanup(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	abort();
}

static void test_crash_in_cleanup_is_reported_and_the_worker_replaced(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = count_and_reply, .cleanup = crash_in_cleanup};
	struct pool_rig *rig = *state;
	open_limited(rig, &ops, "sim:1", 2);
	pool_rig_submit_many(rig, 6);
	pool_rig_drain(rig);
	assert_true(rig->cleanup_failures >= 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 6);
	assert_int_equal(rig->setup_failures, 0);
	check_contains(rig->cleanup_failure.message, "crashed in cleanup");
}

/* ---- Memory ------------------------------------------------------------- */

static char *volatile kept; /* volatile: otherwise the compiler removes the writes */

static void grow(void)
{
	kept = malloc(LARGE);
	check_true(kept != NULL);
	memset(kept, 1, LARGE);
}

static int grow_and_reply(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint32_t what = pool_rig_job(task).what;
	if (what != JOB_ANSWER)
		grow();
	/* Long enough for the warden to take two samples. */
	for (uint64_t start = clock_now_ns(); what == JOB_GROW_SLOWLY && clock_now_ns() < start + 5 * NS_PER_S / 2;)
		usleep(10000);
	atomic_fetch_add(&board->begun, 1);
	return pool_rig_just_reply(w, state, task);
}

static int grow_in_setup(struct gd_worker *w, void **ret_state)
{
	grow();
	return pool_rig_note_setup(w, ret_state);
}

static const struct gd_worker_ops growing = {
	.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process = grow_and_reply,
	.cleanup = pool_rig_note_cleanup,
};

static bool is_replaced(struct pool_rig *rig)
{
	return pool_rig_worker(rig, 0).restarts == 1 && pool_rig_worker(rig, 0).state == GD_WORKER_STATE_IDLE;
}

static void test_large_worker_is_replaced_when_it_has_nothing_to_do(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.max_worker_rss_bytes = LIMIT;
	pool_rig_open(rig, &growing);
	pool_rig_submit(rig, JOB_ANSWER, 0);
	pool_rig_submit(rig, JOB_GROW, 0);
	pool_rig_await(rig, is_replaced);
	assert_int_equal(atomic_load(&board->cleanups), 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 2);
	assert_int_equal(rig->close_stats.restarts, 1);
}

static void test_large_worker_finishes_its_task_before_it_is_replaced(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.max_worker_rss_bytes = LIMIT;
	pool_rig_open(rig, &growing);
	pool_rig_submit(rig, JOB_ANSWER, 0);
	pool_rig_drain(rig);
	pool_rig_submit(rig, JOB_GROW_SLOWLY, 0);
	pool_rig_submit_many(rig, 50);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 52);
	assert_int_equal(rig->starts, 52);
	assert_int_equal(atomic_load(&board->begun), 52);
	assert_int_equal(rig->close_stats.restarts, 1);
	assert_int_equal(atomic_load(&board->cleanups), 2);
}

static void test_worker_whose_setup_exceeds_the_limit_processes_a_task(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = grow_in_setup, .process = pool_rig_just_reply};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.max_worker_rss_bytes = LIMIT;
	pool_rig_open(rig, &ops);
	assert_int_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	/* Long enough for the warden to take two samples. */
	for (uint64_t start = clock_now_ns(); clock_now_ns() < start + 5 * NS_PER_S / 2;)
		assert_int_equal(gd_pool_poll(rig->pool, 100, GD_POLL_IDLE), 0);
	assert_int_equal(pool_rig_worker(rig, 0).restarts, 0);
	pool_rig_submit(rig, 0, 0);
	pool_rig_await(rig, is_replaced);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_worker_is_replaced_after_its_number_of_tasks),
		pool_rig_test(test_one_task_per_worker_and_a_long_queue_lose_nothing),
		pool_rig_test(test_batches_do_not_exceed_the_limit),
		pool_rig_test(test_results_stay_in_order),
		pool_rig_test(test_crash_in_cleanup_is_reported_and_the_worker_replaced),
		pool_rig_test(test_large_worker_is_replaced_when_it_has_nothing_to_do),
		pool_rig_test(test_large_worker_finishes_its_task_before_it_is_replaced),
		pool_rig_test(test_worker_whose_setup_exceeds_the_limit_processes_a_task),
	};
	return cmocka_run_group_tests_name("pool_recycle", tests, NULL, NULL);
}
