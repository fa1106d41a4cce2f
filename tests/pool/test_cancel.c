/* SPDX-License-Identifier: MIT */
/* Single tasks are cancelled: waiting, handed out, running, in batches; each has exactly one end. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/board.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/wait.h"

enum { ANSWER, HANG, LOOK, FAIL, GATE, LOOK_QUIETLY };

static int await_go(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	board_await(&board->go, 1);
	return 0;
}

static int do_job(struct gd_worker *w, size_t i, const struct rig_job *job)
{
	switch (job->what) {
	case HANG:
		process_hang();
	case LOOK:
		while (!gd_worker_cancelled(w, i))
			poll(NULL, 0, 1);
		return gd_worker_fail(w, -EINTR, "gave up");
	case LOOK_QUIETLY:
		while (!gd_worker_cancelled(w, i))
			poll(NULL, 0, 1);
		return 0;
	case FAIL:
		return -EIO;
	case GATE:
		board_pass_gate(0);
		return 0;
	default:
		return 0;
	}
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->begun, 1);
	int r = do_job(w, 0, &job);
	return r < 0 || job.what == LOOK_QUIETLY ? r : pool_rig_reply(w, &job);
}

static int process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	atomic_fetch_add(&board->begun, (int)num_tasks);
	if (num_tasks == 1)
		atomic_fetch_add(&board->notes[0], 1);
	for (size_t i = 0; i < num_tasks; i++) {
		struct rig_job job = pool_rig_job(&tasks[i]);
		uint64_t answer = pool_rig_answer(job.number);
		int r = do_job(w, i, &job);
		if (r < 0)
			gd_worker_batch_fail(w, i, r, "failed");
		else
			gd_worker_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .setup = await_go, .process = process, .cleanup = pool_rig_note_cleanup};
static const struct gd_worker_ops batches = {
	.size = sizeof(struct gd_worker_ops), .setup = await_go, .process_batch = process_batch, .max_batch = 8};

static void open_ready(struct pool_rig *rig, const struct gd_worker_ops *worker)
{
	rig->options.gpus = "sim:1";
	atomic_store(&board->go, 1);
	pool_rig_open(rig, worker);
	pool_rig_pid(rig, 0, 0);
}

static bool is_readable(struct pool_rig *rig)
{
	struct pollfd p = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	return poll(&p, 1, WAIT_MS) == 1;
}

/* ---- Waiting ------------------------------------------------------------ */

static void test_a_waiting_task_is_called_back_by_the_next_poll(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	for (int i = 0; i < 5; i++)
		pool_rig_submit(rig, ANSWER, 0);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		;
	assert_int_equal(gd_pool_cancel(rig->pool, 2), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 2), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 5), -ENOENT);
	assert_true(is_readable(rig));
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 1);
	assert_int_equal(rig->cancelled, 1);
	const struct gd_event *e = &rig->failure.event;
	assert_int_equal(e->id, 2);
	assert_int_equal(e->slot, -1);
	assert_int_equal(e->attempt, 0);
	assert_int_equal(e->code, -ECANCELED);
	assert_string_equal(e->message, "cancelled before it began");
	assert_int_equal(gd_pool_cancel(rig->pool, 2), -ENOENT);
	assert_int_equal(gd_pool_outstanding(rig->pool), 4);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 4);
	assert_int_equal(board->begun, 4);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), -ENOENT);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.cancelled, 1);
}

static void test_a_task_in_an_inbox_never_begins(void **state)
{
	struct pool_rig *rig = *state;
	open_ready(rig, &batches);
	pool_rig_submit(rig, GATE, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 4; i++)
		pool_rig_submit(rig, ANSWER, 0);
	assert_int_equal(pool_rig_worker(rig, 0).queued, 4);
	assert_int_equal(gd_pool_cancel(rig->pool, 2), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 4), 0);
	assert_true(is_readable(rig));
	while (rig->cancelled < 2)
		assert_true(gd_pool_poll(rig->pool, WAIT_MS, 0) > 0);
	assert_int_equal(rig->successes, 0); /* the worker still runs the first */
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 3);
	assert_int_equal(board->begun, 3);
	assert_int_equal(rig->starts, 3);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* The worker has put the task into a batch before the pool could take it back: the task ends without waiting for the
 * hook. */
static void test_a_task_cancelled_before_its_batch_begins_ends_at_once(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	open_ready(rig, &batches);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit(rig, GATE, 0);
	pool_rig_submit(rig, ANSWER, 0);
	pool_rig_submit(rig, ANSWER, 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 1), 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	board_await(&board->begun, 1);
	while (rig->cancelled == 0)
		assert_true(gd_pool_poll(rig->pool, WAIT_MS, 0) > 0);
	assert_int_equal(rig->failure.event.id, 1);
	assert_int_equal(rig->successes, 0);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 2);
	assert_int_equal(board->begun, 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

/* Its bytes are already in the worker's socket, so it cannot be taken back: the worker skips it. */
static void test_a_large_task_in_an_inbox_never_begins(void **state)
{
	struct pool_rig *rig = *state;
	open_ready(rig, &batches);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_sized(rig, ANSWER, (size_t)3 << 20);
	pool_rig_submit(rig, ANSWER, 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		;
	assert_int_equal(kill(pid, SIGCONT), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->failure.event.slot, -1);
	assert_int_equal(board->begun, 1);
	assert_int_equal(rig->starts, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_in_the_inbox_of_a_worker_that_dies_never_begins(void **state)
{
	struct pool_rig *rig = *state;
	open_ready(rig, &batches);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_sized(rig, ANSWER, (size_t)3 << 20);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	process_kill(pid);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(board->begun, 0);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- No memory ---------------------------------------------------------- */

#define LOST_BYTES ((size_t)3 << 19) /* in the inbox */

static struct rlimit addresses;
static void *taken; /* each block points to the next */
static bool cancels_doomed;

/* No address space is left, and no free block is large enough for the task. */
static void take_all_memory(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	assert_int_equal(getrlimit(RLIMIT_AS, &addresses), 0);
	struct rlimit none = addresses;
	none.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE);
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (void **block; (block = malloc(LOST_BYTES / 2)); taken = block)
		*block = taken;
}

static void give_memory_back(void)
{
	setrlimit(RLIMIT_AS, &addresses);
	while (taken) {
		void *next = *(void **)taken;
		free(taken);
		taken = next;
	}
}

/* The worker has died: there was no memory for the task that it had not begun. There is memory again for its
 * replacement. */
static void cancel_the_doomed(struct pool_rig *rig, const struct gd_event *event)
{
	if (event->id != 0)
		return;
	give_memory_back();
	if (cancels_doomed && gd_pool_cancel(rig->pool, 1) == 0)
		atomic_fetch_add(&board->notes[1], 1);
}

/* A worker hangs in task 0 and is killed; task 1 was in its inbox, and is lost. */
static void lose_a_task(struct pool_rig *rig, bool cancels)
{
	cancels_doomed = cancels;
	rig->on_end = cancel_the_doomed;
	open_ready(rig, &batches);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	pool_rig_submit(rig, HANG, 0);
	board_await(&board->begun, 1);
	pool_rig_submit_sized(rig, ANSWER, LOST_BYTES);
	take_all_memory();
	process_kill(pid);
	pool_rig_drain(rig);
	assert_int_equal(board->begun, 1);
	assert_int_equal(rig->by_failure[GD_FAILURE_CRASHED], 1);
	assert_int_equal(rig->failure.event.id, 1);
	assert_null(rig->failure.event.task.data);
	pool_rig_submit_sized(rig, ANSWER, LOST_BYTES);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* Sanitizers need the whole address space, and so does qemu, under which the tests for aarch64 run. */
static bool can_limit_addresses(void)
{
#if defined(__x86_64__)
	return !SANITIZER_ADDRESS && !SANITIZER_THREAD;
#else
	return false;
#endif
}

static void test_a_task_whose_bytes_are_lost_for_want_of_memory_fails(void **state)
{
	struct pool_rig *rig = *state;
	if (!can_limit_addresses())
		skip();
	lose_a_task(rig, false);
	assert_int_equal(rig->by_failure[GD_FAILURE_NOT_CARRIED], 1);
	assert_int_equal(rig->failure.event.code, -ENOMEM);
}

static void test_a_task_whose_bytes_are_lost_is_cancelled_before_it_fails(void **state)
{
	struct pool_rig *rig = *state;
	if (!can_limit_addresses())
		skip();
	lose_a_task(rig, true);
	assert_int_equal(board->notes[1], 1);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->by_failure[GD_FAILURE_NOT_CARRIED], 0);
	assert_int_equal(rig->failure.event.failure, GD_FAILURE_CANCELLED);
}

/* Fixed orders of 0…n-1. */
static uint64_t in_order(uint64_t i, uint64_t n)
{
	(void)n;
	return i;
}

static uint64_t reversed(uint64_t i, uint64_t n)
{
	return n - 1 - i;
}

static uint64_t scattered(uint64_t i, uint64_t n)
{
	return i * 7919 % n; /* 7919 does not divide n */
}

static uint64_t cpu_ns(void)
{
	struct timespec used;
	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
	return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static void test_100000_waiting_tasks_are_cancelled_quickly_in_any_order(void **state)
{
	static uint64_t (*const orders[])(uint64_t i, uint64_t n) = {in_order, reversed, scattered};
	const uint64_t n = 100000;
	struct pool_rig *rig = *state;
	for (size_t k = 0; k < 3; k++) {
		rig = pool_rig_again(state);
		rig->options.gpus = "sim:1";
		rig->options.queue_size = (int)n;
		pool_rig_open(rig, &ops);
		pool_rig_submit_many(rig, n);
		uint64_t begin = cpu_ns();
		for (uint64_t i = 0; i < n; i++) {
			assert_int_equal(gd_pool_cancel(rig->pool, orders[k](i, n)), 0);
			if (i % 16 == 0)
				gd_pool_poll(rig->pool, 0, 0);
		}
		pool_rig_drain(rig);
		/* It takes a tenth of a second. With n²/2 steps of ten nanoseconds or more it would take about a
		 * minute. */
		assert_true(cpu_ns() - begin < 8 * NS_PER_S);
		assert_int_equal(rig->cancelled, n);
		atomic_store(&board->go, 1);
		assert_int_equal(pool_rig_close(rig), 0);
	}
}

static void test_room_of_cancelled_tasks_is_used_again(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.queue_size = 10;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 11);
	for (uint64_t round = 0; round < 50; round++) {
		for (uint64_t i = 2; i < 9; i++)
			assert_int_equal(gd_pool_cancel(rig->pool, round ? 11 + (round - 1) * 7 + i - 2 : i), 0);
		while (gd_pool_poll(rig->pool, 0, 0) > 0)
			;
		assert_int_equal(gd_pool_room(rig->pool), 7);
		pool_rig_submit_many(rig, 7);
	}
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 11);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Running ------------------------------------------------------------ */

static void test_a_running_task_that_gives_up_keeps_its_worker(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	rig->options.retries = 3;
	open_ready(rig, &ops);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	pool_rig_submit(rig, LOOK, 0);
	board_await(&board->begun, 1);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0); /* it has not ended */
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->failure.event.code, -EINTR);
	assert_string_equal(rig->failure.message, "gave up");
	pool_rig_submit(rig, ANSWER, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_pid(rig, 0, 0), pid);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

static void test_a_cancelled_task_that_returns_0_without_a_result_is_cancelled(void **state)
{
	struct pool_rig *rig = *state;
	open_ready(rig, &ops);
	pool_rig_submit(rig, LOOK_QUIETLY, 0);
	board_await(&board->begun, 1);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->failure.event.code, -ECANCELED);
	assert_string_equal(rig->failure.message, "cancelled while it was being processed");
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

static void test_a_running_task_that_does_not_give_up_is_killed(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	rig->options.retries = 3;
	open_ready(rig, &ops);
	pool_rig_submit(rig, HANG, 0);
	board_await(&board->begun, 1);
	pool_rig_submit(rig, ANSWER, 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(rig->failure.event.code, -ECANCELED);
	assert_int_equal(rig->failure.event.slot, 0);
	assert_string_equal(rig->failure.message, "cancelled; its worker did not stop and was killed");
	assert_int_equal(rig->failure.event.signal, SIGKILL);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 1);
}

static void test_the_rest_of_a_killed_batch_is_repeated(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	open_ready(rig, &batches);
	pool_rig_submit(rig, GATE, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 5; i++)
		pool_rig_submit(rig, i == 2 ? HANG : ANSWER, 0);
	board_open_gate(0);
	board_await(&board->begun, 6);
	assert_int_equal(gd_pool_cancel(rig->pool, 3), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->successes, 5);
	assert_int_equal(rig->starts, 6); /* the repeated ones were already reported */
	assert_int_equal(board->begun, 6 + 2);
	assert_int_equal(board->notes[0], 1 + 2); /* each alone */
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 0);
	assert_int_equal(rig->close_stats.restarts, 1);
}

static void test_one_of_a_batch_gives_up_and_the_others_go_on(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = WAIT_MS;
	open_ready(rig, &batches);
	pool_rig_submit(rig, GATE, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 5; i++)
		pool_rig_submit(rig, i == 2 ? LOOK : ANSWER, 0);
	board_open_gate(0);
	board_await(&board->begun, 6);
	assert_int_equal(gd_pool_cancel(rig->pool, 3), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->successes, 5);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

/* ---- From callbacks, and in order --------------------------------------- */

static int from_callback[3];

static void cancel_in_callback(struct pool_rig *rig, const struct gd_event *event)
{
	if (event->id != 0)
		return;
	from_callback[0] = gd_pool_cancel(rig->pool, 0);
	from_callback[1] = gd_pool_cancel(rig->pool, 1);
	from_callback[2] = gd_pool_cancel(rig->pool, 2);
}

static void test_a_callback_may_cancel_others_but_not_its_own(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = WAIT_MS;
	rig->on_end = cancel_in_callback;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, ANSWER, 0);
	pool_rig_submit(rig, LOOK, 0);
	pool_rig_submit(rig, LOOK, 0);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(from_callback[0], -ENOENT);
	assert_int_equal(from_callback[1], 0);
	assert_int_equal(from_callback[2], 0);
	assert_int_equal(rig->cancelled, 2);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* The failed task waits for another worker, whose setup never ends. */
static int hold_slot_1(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		board_await(&board->go, 1);
	return 0;
}

static bool one_retry(struct pool_rig *rig)
{
	struct gd_stats stats;
	gd_pool_stats(rig->pool, &stats, sizeof(stats));
	return stats.retries == 1;
}

static void test_a_task_that_waits_for_its_next_attempt_is_cancelled(void **state)
{
	static const struct gd_worker_ops held = {
		.size = sizeof(struct gd_worker_ops), .setup = hold_slot_1, .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &held);
	pool_rig_pid(rig, 0, 0);
	pool_rig_submit(rig, FAIL, 0);
	pool_rig_await(rig, one_retry);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 1);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(rig->failure.event.attempt, 1);
	atomic_store(&board->go, 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(board->begun, 1);
}

static void test_cancelled_tasks_keep_their_place_in_an_ordered_pool(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.ordered = 1;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 20);
	for (uint64_t id = 1; id < 20; id += 2)
		assert_int_equal(gd_pool_cancel(rig->pool, id), 0);
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 1), -ENOENT);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->cancelled, 10);
	assert_int_equal(rig->successes, 10);
	assert_false(rig->out_of_order);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Another thread, a stop, a close ------------------------------------ */

static void *cancel_all(void *context)
{
	struct pool_rig *rig = context;
	for (int round = 0; round < 50; round++)
		for (uint64_t id = 0; id < 2000; id++)
			gd_pool_cancel(rig->pool, id);
	return NULL;
}

static void test_a_thread_cancels_while_tasks_are_done(void **state)
{
	struct pool_rig *rig = *state;
	for (int kind = 0; kind < 2; kind++) {
		rig = pool_rig_again(state);
		rig->options.grace_ms = WAIT_MS;
		atomic_store(&board->go, 1);
		pool_rig_open(rig, kind ? &batches : &ops);
		pool_rig_reserve(rig, 2000);
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, cancel_all, rig), 0);
		pool_rig_submit_many(rig, 2000);
		pool_rig_drain(rig);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(rig->successes + rig->cancelled, 2000);
		assert_int_equal(pool_rig_close(rig), 0);
	}
}

static void test_cancelled_tasks_are_called_back_by_close(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	open_ready(rig, &batches);
	pool_rig_submit(rig, HANG, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 6; i++)
		pool_rig_submit(rig, ANSWER, 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 0), 0);
	assert_int_equal(gd_pool_cancel(rig->pool, 3), 0);
	gd_pool_stop(rig->pool);
	assert_int_equal(gd_pool_cancel(rig->pool, 4), 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->cancelled, 7);
}

static void test_a_third_stop_kills_all_workers_without_cleanup(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 10 * WAIT_MS;
	atomic_store(&board->go, 1);
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit(rig, HANG, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 3; i++)
		gd_pool_stop(rig->pool);
	int r;
	while ((r = gd_pool_poll(rig->pool, WAIT_MS, 0)) >= 0)
		;
	assert_int_equal(r, -ECANCELED);
	assert_int_equal(rig->cancelled, 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(board->cleanups, 0);
}

/* ---- Everything at once, with a fixed seed ------------------------------ */

static unsigned dice(unsigned *seed, unsigned sides)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % sides;
}

static void disturb(struct pool_rig *rig, unsigned *seed)
{
	static const uint32_t kinds[] = {ANSWER, ANSWER, ANSWER, ANSWER, FAIL, LOOK, HANG};
	rig->timeout_ms = dice(seed, 3) ? 10 + dice(seed, 30) : 0;
	uint32_t what = kinds[dice(seed, rig->timeout_ms ? 7 : 5)];
	pool_rig_submit(rig, what, 0);
	if (dice(seed, 4) == 0)
		gd_pool_cancel(rig->pool, rig->submitted - 1 - dice(seed, 40) % rig->submitted);
	if (dice(seed, 100) == 0) {
		struct gd_worker_stats s = pool_rig_worker(rig, (int)dice(seed, 3));
		if (s.pid > 0 && s.state == GD_WORKER_STATE_BUSY)
			kill((pid_t)s.pid, SIGKILL);
	}
	if (dice(seed, 8) == 0)
		gd_pool_poll(rig->pool, 0, 0);
}

static void run_at_random(struct pool_rig *rig, unsigned seed)
{
	rig->options.gpus = "sim:3";
	rig->options.grace_ms = 5;
	rig->options.queue_size = 100;
	rig->options.retries = (int)(seed % 3);
	rig->options.ordered = seed % 2;
	atomic_store(&board->go, 1);
	pool_rig_open(rig, seed % 4 < 2 ? &batches : &ops);
	for (int i = 0; i < 400; i++)
		disturb(rig, &seed);
	unsigned stops = dice(&seed, 5);
	if (stops == 4)
		pool_rig_drain(rig);
	for (unsigned i = 0; i < stops; i++) {
		gd_pool_stop(rig->pool);
		gd_pool_poll(rig->pool, 0, 0);
		gd_pool_cancel(rig->pool, rig->submitted - 1 - dice(&seed, 40));
	}
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.cancelled, rig->cancelled);
	assert_true(!rig->options.ordered || !rig->out_of_order);
}

static void test_each_task_has_one_end_whatever_happens(void **state)
{
	for (unsigned seed = 1; seed <= 12; seed++)
		run_at_random(pool_rig_again(state), seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_waiting_task_is_called_back_by_the_next_poll),
		pool_rig_test(test_a_task_in_an_inbox_never_begins),
		pool_rig_test(test_a_task_cancelled_before_its_batch_begins_ends_at_once),
		pool_rig_test(test_a_large_task_in_an_inbox_never_begins),
		pool_rig_test(test_a_task_in_the_inbox_of_a_worker_that_dies_never_begins),
		pool_rig_test(test_a_task_whose_bytes_are_lost_for_want_of_memory_fails),
		pool_rig_test(test_a_task_whose_bytes_are_lost_is_cancelled_before_it_fails),
		pool_rig_test(test_100000_waiting_tasks_are_cancelled_quickly_in_any_order),
		pool_rig_test(test_room_of_cancelled_tasks_is_used_again),
		pool_rig_test(test_a_running_task_that_gives_up_keeps_its_worker),
		pool_rig_test(test_a_cancelled_task_that_returns_0_without_a_result_is_cancelled),
		pool_rig_test(test_a_running_task_that_does_not_give_up_is_killed),
		pool_rig_test(test_the_rest_of_a_killed_batch_is_repeated),
		pool_rig_test(test_one_of_a_batch_gives_up_and_the_others_go_on),
		pool_rig_test(test_a_callback_may_cancel_others_but_not_its_own),
		pool_rig_test(test_a_task_that_waits_for_its_next_attempt_is_cancelled),
		pool_rig_test(test_cancelled_tasks_keep_their_place_in_an_ordered_pool),
		pool_rig_test(test_a_thread_cancels_while_tasks_are_done),
		pool_rig_test(test_cancelled_tasks_are_called_back_by_close),
		pool_rig_test(test_a_third_stop_kills_all_workers_without_cleanup),
		pool_rig_test(test_each_task_has_one_end_whatever_happens),
	};
	return cmocka_run_group_tests_name("pool cancel", tests, NULL, NULL);
}
