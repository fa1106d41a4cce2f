/* SPDX-License-Identifier: MIT */
/* The lower layer: open, submit, poll, the descriptor, close; in one thread and in several. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder.h"
#include "support/board.h"
#include "support/sanitizer.h"
#include "support/wait.h"

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

static int submit(struct gd_pool *p, uint64_t number, const struct gd_task_options *options)
{
	return gd_pool_submit(p, &number, sizeof(number), NULL, options, NULL);
}

static void close_pool(struct recorder *rec, struct gd_pool *p)
{
	assert_int_equal(gd_pool_close(p, &rec->stats, sizeof(rec->stats), &rec->err), 0);
	rec->given = rec->stats.submitted;
	recorder_assert_complete(rec);
}

static void test_submitted_tasks_are_called_back_by_poll_with_their_tag(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &echo);
	for (uint64_t i = 0; i < 5; i++) {
		uint64_t id = 99, number = i * i;
		assert_int_equal(gd_pool_submit(p, &number, sizeof(number), rec, NULL, &id), 0);
		assert_int_equal(id, i);
	}
	assert_int_equal(gd_pool_outstanding(p), 5);
	int made = 0;
	while (gd_pool_outstanding(p) > 0) {
		int n = gd_pool_poll(p, -1, 0);
		assert_true(n > 0);
		made += n;
	}
	assert_int_equal(made, 10); /* on_task_start and on_success of each */
	for (size_t i = 0; i < 5; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->result, n->event.id * n->event.id);
		assert_ptr_equal(n->event.tag, rec);
	}
	/* Nothing to wait for: returns even with an infinite timeout. */
	assert_int_equal(gd_pool_poll(p, -1, 0), 0);
	close_pool(rec, p);
	assert_int_equal(rec->stats.completed, 5);
	assert_int_equal(gd_pool_close(NULL, NULL, 0, NULL), 0);
}

static int wait_at_gate(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) != 1000)
		board_pass_gate(0);
	return recorder_echo(w, state, task);
}

static const struct gd_worker_ops gated = {.size = sizeof(struct gd_worker_ops), .process = wait_at_gate};

static void test_full_queue_refuses_tasks_with_eagain(void **state)
{
	struct recorder *rec = *state;
	rec->options.queue_size = 3;
	struct gd_pool *p = recorder_open(rec, &gated);
	assert_int_equal(gd_pool_room(p), 5); /* and one in each worker */
	for (int i = 0; i < 5; i++)
		assert_int_equal(submit(p, 0, NOWAIT), 0);
	assert_int_equal(gd_pool_room(p), 0);
	uint64_t id = 77;
	struct gd_draft *draft = NULL;
	void *data = NULL;
	assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NOWAIT, &id), -EAGAIN);
	assert_int_equal(id, 77);
	assert_int_equal(gd_pool_reserve(p, 1, NOWAIT, &draft, &data), -EAGAIN);
	assert_null(draft);
	/* The polling thread cannot wait for another thread. */
	assert_int_equal(submit(p, 0, NULL), -EAGAIN);
	assert_int_equal(gd_pool_reserve(p, 1, NULL, &draft, &data), -EAGAIN);
	/* Nor does a poll wait longer than its timeout. */
	uint64_t begin = clock_now_ns();
	while (gd_pool_poll(p, 20, 0) > 0)
		; /* the task starts */
	assert_true(clock_now_ns() - begin >= 20000000);
	for (int i = 0; i < 5; i++)
		board_open_gate(0);
	recorder_drain(p);
	assert_int_equal(gd_pool_room(p), 5);
	assert_int_equal(submit(p, 1000, NULL), 0);
	recorder_drain(p);
	close_pool(rec, p);
}

/* ---- The descriptor ----------------------------------------------------- */

/* One task at a time, each waited for only with the descriptor: a lost wake-up fails the test. */
static void one_by_one(struct recorder *rec, bool (*wait)(int fd), unsigned count)
{
	struct gd_pool *p = recorder_open(rec, &echo);
	int fd = gd_pool_fd(p);
	for (uint64_t i = 0; i < count; i++) {
		size_t before = rec->count[CALLBACK_SUCCESS];
		assert_int_equal(submit(p, i, NOWAIT), 0);
		while (rec->count[CALLBACK_SUCCESS] == before) {
			if (!wait(fd))
				fail_msg("task %d: the descriptor did not become readable", (int)i);
			assert_true(gd_pool_poll(p, 0, 0) >= 0);
		}
	}
	close_pool(rec, p);
}

static bool wait_with_poll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, WAIT_MS) == 1;
}

static int epoll = -1;

static bool wait_with_epoll(int fd)
{
	if (epoll < 0) {
		struct epoll_event event = {.events = EPOLLIN};
		epoll = epoll_create1(EPOLL_CLOEXEC);
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			return false;
	}
	struct epoll_event event;
	return epoll_wait(epoll, &event, 1, WAIT_MS) == 1;
}

static void test_no_wake_up_is_lost_with_poll(void **state)
{
	struct recorder *rec = *state;
	rec->calls.on_task_start = NULL;
	one_by_one(rec, wait_with_poll, SANITIZER_ADDRESS ? 3000 : 20000);
}

static void test_no_wake_up_is_lost_with_epoll(void **state)
{
	struct recorder *rec = *state;
	one_by_one(rec, wait_with_epoll, SANITIZER_ADDRESS ? 3000 : 20000);
	close(epoll);
	epoll = -1;
}

/* Several in flight: as many as fit, and each answer submits the next task. */
static void test_no_wake_up_is_lost_with_many_under_way(void **state)
{
	struct recorder *rec = *state;
	uint64_t tasks = SANITIZER_ADDRESS ? 10000 : 100000, given = 0;
	rec->options.queue_size = 30;
	rec->options.gpus = "sim:4";
	struct gd_pool *p = recorder_open(rec, &echo);
	while (rec->count[CALLBACK_SUCCESS] < tasks) {
		for (; given < tasks && gd_pool_room(p) > 0; given++)
			assert_int_equal(submit(p, given, NOWAIT), 0);
		if (!wait_with_poll(gd_pool_fd(p)))
			fail_msg("the descriptor did not become readable: %zu of %d tasks are done",
				rec->count[CALLBACK_SUCCESS], (int)given);
		assert_true(gd_pool_poll(p, 0, 0) >= 0);
	}
	close_pool(rec, p);
}

/* When all is quiet it must not stay readable: a loop on it would spin. */
static void test_descriptor_is_not_readable_when_nothing_happens(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &echo);
	for (int turn = 0; turn < 3; turn++) {
		for (uint64_t i = 0; i < 10; i++)
			assert_int_equal(submit(p, i, NULL), 0);
		while (gd_pool_outstanding(p) > 0)
			assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
		struct pollfd fd = {.fd = gd_pool_fd(p), .events = POLLIN};
		int empty_turns = 0;
		/* The workers become ready, then nothing more happens. */
		while (poll(&fd, 1, 50) > 0 && empty_turns < 100) {
			gd_pool_poll(p, 0, 0);
			empty_turns++;
		}
		assert_true(empty_turns < 100);
	}
	close_pool(rec, p);
}

/* ---- gd_pool_interrupt, gd_pool_stop, gd_pool_close --------------------- */

static void *interrupt_later(void *argument)
{
	struct gd_pool *p = argument;
	poll(NULL, 0, 20);
	gd_pool_interrupt(p);
	return NULL;
}

static struct gd_pool *interrupted;

static void interrupt_from_handler(int sig)
{
	(void)sig;
	gd_pool_interrupt(interrupted);
}

static void test_a_poll_that_waits_can_be_interrupted(void **state)
{
	struct recorder *rec = *state;
	pthread_t thread;
	struct gd_pool *p = recorder_open(rec, &gated);
	assert_int_equal(submit(p, 0, NULL), 0);
	while (rec->count[CALLBACK_START] == 0)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, interrupt_later, p), 0);
		int r;
		while ((r = gd_pool_poll(p, -1, 0)) > 0)
			;
		assert_int_equal(r, 0);
		assert_int_equal(gd_pool_outstanding(p), 1);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	/* Before the poll: it is not lost. */
	gd_pool_interrupt(p);
	assert_int_equal(gd_pool_poll(p, -1, 0), 0);
	interrupted = p;
	struct sigaction action = {.sa_handler = interrupt_from_handler};
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	assert_int_equal(gd_pool_poll(p, -1, 0), 0);
	board_open_gate(0);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, -1, 0) >= 0);
	close_pool(rec, p);
}

static void test_stopped_pool_refuses_tasks_and_polls(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &echo);
	assert_int_equal(submit(p, 1, NULL), 0);
	gd_pool_stop(p);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
	assert_int_equal(gd_pool_poll(p, -1, 0), -ECANCELED);
	assert_int_equal(submit(p, 1, NULL), -ESHUTDOWN);
	struct gd_draft *d;
	void *data;
	assert_int_equal(gd_pool_reserve(p, 1, NULL, &d, &data), -ESHUTDOWN);
	close_pool(rec, p);
}

static void test_a_draft_that_meets_a_stop_is_refused(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &echo);
	struct gd_draft *d;
	void *data;
	assert_int_equal(gd_pool_reserve(p, 10, NULL, &d, &data), 0);
	gd_pool_stop(p);
	assert_int_equal(gd_pool_poll(p, 0, 0), 0);
	assert_int_equal(gd_draft_commit(d, 10, NULL, NULL), -ESHUTDOWN);
	assert_int_equal(gd_pool_poll(p, -1, 0), -ECANCELED);
	close_pool(rec, p);
	assert_int_equal(rec->stats.submitted, 0);
}

static int look_at_gate(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	while (!gd_worker_cancelled(w, 0))
		poll(NULL, 0, 1);
	atomic_fetch_add(&board->words[0], 1);
	return recorder_echo(w, state, task);
}

static void test_close_ends_every_outstanding_task(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = look_at_gate};
	struct recorder *rec = *state;
	rec->options.grace_ms = 10000;
	struct gd_pool *p = recorder_open(rec, &ops);
	for (uint64_t i = 0; i < 30; i++)
		assert_int_equal(submit(p, i, NULL), 0);
	while (rec->count[CALLBACK_START] < 2)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
	close_pool(rec, p);
	assert_int_equal(board->words[0], 2);
	assert_int_equal(rec->stats.submitted, 30);
	assert_int_equal(rec->stats.cancelled + rec->stats.completed, 30);
	for (size_t i = 0; i < rec->count[CALLBACK_CANCELLED]; i++)
		assert_int_equal(recorder_note(rec, CALLBACK_CANCELLED, i)->event.failure, GD_FAILURE_CANCELLED);
}

static void test_close_right_after_open_works(void **state)
{
	struct recorder *rec = *state;
	for (int i = 0; i < 20; i++) {
		struct gd_pool *p = recorder_open(rec, &echo);
		if (i % 2)
			assert_int_equal(submit(p, 1, NULL), 0);
		recorder_restart(rec);
		close_pool(rec, p);
	}
}

/* ---- From callbacks and threads ----------------------------------------- */

struct inside {
	struct gd_pool *pool;
	int poll;
	int close;
	int full;
};

static int submit_more(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct inside *in = rec->extra;
	if (note->kind != CALLBACK_SUCCESS)
		return 0;
	in->poll = gd_pool_poll(in->pool, 0, 0);
	in->close = gd_pool_close(in->pool, NULL, 0, NULL);
	/* Each task submits two more, up to a thousand. */
	for (int i = 0; i < 2 && event->id + rec->given < 1000; i++) {
		int r = submit(in->pool, event->id, 0);
		if (r == 0)
			rec->given++;
		else if (r == -EAGAIN)
			in->full++;
		else
			return r;
	}
	return 0;
}

static void test_callbacks_may_submit(void **state)
{
	struct recorder *rec = *state;
	struct inside in = {0};
	rec->options.queue_size = 100;
	rec->extra = &in;
	rec->on_note = submit_more;
	struct gd_pool *p = in.pool = recorder_open(rec, &echo);
	assert_int_equal(submit(p, 0, NULL), 0);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
	/* Calls that would wait for themselves are refused. */
	assert_int_equal(in.poll, -EDEADLK);
	assert_int_equal(in.close, -EDEADLK);
	assert_true(in.full > 0);
	assert_true(rec->given > 200);
	close_pool(rec, p);
}

#define THREADS    4
#define PER_THREAD 3000

struct submitter {
	struct gd_pool *pool;
	uint64_t first;
	int failed;
	atomic_int *left;
};

static void *submit_many(void *argument)
{
	struct submitter *s = argument;
	for (uint64_t i = 0; i < PER_THREAD; i++) {
		uint64_t number = s->first + i;
		int r;
		if (i % 3 == 0) {
			struct gd_draft *d;
			void *data;
			r = gd_pool_reserve(s->pool, 100, NULL, &d, &data);
			if (r == 0) {
				memcpy(data, &number, sizeof(number));
				if (i % 9 == 0)
					gd_draft_abandon(d);
				else
					r = gd_draft_commit(d, 8, NULL, NULL);
			}
			if (r == 0 && i % 9 != 0)
				continue;
		}
		if (gd_pool_submit(s->pool, &number, sizeof(number), NULL, NULL, NULL) < 0)
			s->failed++;
	}
	if (atomic_fetch_sub(s->left, 1) == 1)
		gd_pool_interrupt(s->pool);
	return NULL;
}

static void test_several_threads_submit_and_wait_for_room(void **state)
{
	struct recorder *rec = *state;
	struct submitter submitters[THREADS];
	pthread_t threads[THREADS];
	atomic_int left = THREADS;
	rec->options.queue_size = 20;
	rec->calls.on_task_start = NULL;
	struct gd_pool *p = recorder_open(rec, &echo);
	for (int i = 0; i < THREADS; i++) {
		submitters[i] = (struct submitter){.pool = p, .first = (uint64_t)i * PER_THREAD, .left = &left};
		assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
	}
	while (atomic_load(&left) > 0 || gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, 100, 0) >= 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(submitters[i].failed, 0);
	}
	close_pool(rec, p);
	unsigned char *seen = calloc(THREADS, PER_THREAD);
	assert_non_null(seen);
	for (size_t i = 0; i < rec->count[CALLBACK_SUCCESS]; i++)
		seen[rec->notes[i].result]++;
	for (size_t i = 0; i < THREADS * PER_THREAD; i++)
		assert_int_equal(seen[i], 1);
	free(seen);
}

/* A thread that waits for space is released when the pool stops. */
static void *submit_until_refused(void *argument)
{
	struct gd_pool *p = argument;
	int r;
	do {
		r = submit(p, 0, NULL);
	} while (r == 0);
	return (void *)(intptr_t)r;
}

static void test_stop_releases_threads_that_wait_for_room(void **state)
{
	struct recorder *rec = *state;
	pthread_t thread;
	void *result;
	rec->options.queue_size = 2;
	struct gd_pool *p = recorder_open(rec, &gated);
	assert_int_equal(pthread_create(&thread, NULL, submit_until_refused, p), 0);
	while (gd_pool_room(p) > 0 || rec->count[CALLBACK_START] < 2)
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
	gd_pool_stop(p);
	for (int i = 0; i < 1000; i++) /* the next poll may take and hand out some more before it stops */
		board_open_gate(0);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) >= 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, -ESHUTDOWN);
	close_pool(rec, p);
}

static void test_pool_without_workers_returns_enodev(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = recorder_no_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &ops);
	assert_int_equal(submit(p, 0, NULL), 0);
	int r;
	while ((r = gd_pool_poll(p, WAIT_MS, 0)) > 0)
		;
	assert_int_equal(r, -ENODEV);
	assert_int_equal(submit(p, 0, NULL), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	assert_int_equal(recorder_note(rec, CALLBACK_ERROR, 0)->event.failure, GD_FAILURE_NO_WORKER);
	struct gd_worker_stats w;
	assert_int_equal(gd_pool_worker_stats(p, 1, &w, sizeof(w)), 0);
	assert_int_equal(w.state, GD_WORKER_STATE_LOST);
	assert_int_equal(gd_pool_worker_stats(p, 2, &w, sizeof(w)), -ENOENT);
	close_pool(rec, p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_submitted_tasks_are_called_back_by_poll_with_their_tag),
		recorder_test(test_full_queue_refuses_tasks_with_eagain),
		recorder_test(test_no_wake_up_is_lost_with_poll),
		recorder_test(test_no_wake_up_is_lost_with_epoll),
		recorder_test(test_no_wake_up_is_lost_with_many_under_way),
		recorder_test(test_descriptor_is_not_readable_when_nothing_happens),
		recorder_test(test_a_poll_that_waits_can_be_interrupted),
		recorder_test(test_stopped_pool_refuses_tasks_and_polls),
		recorder_test(test_a_draft_that_meets_a_stop_is_refused),
		recorder_test(test_close_ends_every_outstanding_task),
		recorder_test(test_close_right_after_open_works),
		recorder_test(test_callbacks_may_submit),
		recorder_test(test_several_threads_submit_and_wait_for_room),
		recorder_test(test_stop_releases_threads_that_wait_for_room),
		recorder_test(test_pool_without_workers_returns_enodev),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
