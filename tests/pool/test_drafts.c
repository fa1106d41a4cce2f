/* SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* its read() is an inline function, and this file defines another */
/* Tasks that are being written while their worker or pool changes state. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool/pool_private.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

enum { ANSWER, DIE };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == DIE) {
		atomic_store(&board->begun, 1);
		board_await(&board->go, 1);
		raise(SIGKILL);
	}
	return pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};

/* ---- Its worker dies ---------------------------------------------------- */

static struct {
	struct pool_rig *rig;
	struct gd_draft *draft;
	void *data;
	gd_callback *on_error;
} draft;

/* One worker whose tasks are known to be short, so that one more fits in its inbox. */
static void open_warm(struct pool_rig *rig)
{
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 200);
	pool_rig_drain(rig);
}

static void reserve(struct pool_rig *rig)
{
	assert_int_equal(gd_pool_reserve(rig->pool, 100, NOWAIT, &draft.draft, &draft.data), 0);
}

/* The worker whose inbox contains the draft dies and is replaced. */
static void reserve_and_bury(struct pool_rig *rig)
{
	open_warm(rig);
	pool_rig_pid(rig, 0, 0);
	reserve(rig);
	pool_rig_replace_worker(rig, 0);
}

static void commit(struct pool_rig *rig)
{
	struct rig_job job = {.what = ANSWER, .number = rig->submitted};
	uint64_t id = 0;
	memcpy(draft.data, &job, sizeof(job));
	check_equal(gd_draft_commit(draft.draft, 100, NULL, &id), 0);
	check_true(id == rig->submitted);
	rig->submitted++;
	draft.draft = NULL;
}

static int commit_at_the_funeral(void *context, const struct gd_event *event)
{
	int r = draft.on_error(context, event);
	commit(draft.rig);
	return r;
}

static void test_draft_committed_in_the_callback_of_its_dead_worker_is_not_lost(void **state)
{
	struct pool_rig *rig = *state;
	draft.rig = rig;
	draft.on_error = rig->calls.on_error;
	rig->calls.on_error = commit_at_the_funeral;
	open_warm(rig);
	pool_rig_submit(rig, DIE, 0);
	board_await(&board->begun, 1);
	reserve(rig);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_null(draft.draft);
	assert_int_equal(rig->errors, 1);
	assert_int_equal(rig->successes, 201);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_draft_committed_after_its_worker_was_replaced_is_not_lost(void **state)
{
	struct pool_rig *rig = *state;
	reserve_and_bury(rig);
	commit(rig);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 201);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_draft_abandoned_after_its_worker_was_replaced_leaves_nothing(void **state)
{
	struct pool_rig *rig = *state;
	reserve_and_bury(rig);
	memset(draft.data, 'x', 100); /* still ours to write */
	gd_draft_abandon(draft.draft);
	assert_int_equal(gd_pool_outstanding(rig->pool), 0);
	pool_rig_submit_many(rig, 10);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* The worker's fault was known before the task was submitted: the task is not to blame. */
static void test_draft_committed_after_its_worker_has_broken_the_rules_is_not_lost(void **state)
{
	struct pool_rig *rig = *state;
	open_warm(rig);
	reserve(rig);
	struct slot *s = &rig->pool->slots[0];
	assert_true(s->drafting);
	pthread_mutex_lock(&rig->pool->lock);
	s->broken = "a record of no known kind";
	pthread_mutex_unlock(&rig->pool->lock);
	commit(rig);
	pool_kill_worker(rig->pool, s);
	pool_rig_drain(rig);
	assert_int_equal(rig->errors, 0);
	assert_int_equal(rig->successes, 201);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- A thread waits for it ---------------------------------------------- */

static int committed;

static void *abandon_when_waited_for(void *poller)
{
	process_await_asleep(*(pid_t *)poller);
	gd_draft_abandon(draft.draft);
	return NULL;
}

static void *commit_when_waited_for(void *poller)
{
	process_await_asleep(*(pid_t *)poller);
	committed = gd_draft_commit(draft.draft, 100, NULL, NULL);
	return NULL;
}

/* The result of gd_pool_poll() when the draft is all that it waits for. */
static int poll_meanwhile(struct pool_rig *rig, void *(*meanwhile)(void *poller))
{
	pid_t self = getpid();
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, meanwhile, &self), 0);
	uint64_t begin = clock_now_ns();
	int r = gd_pool_poll(rig->pool, WAIT_MS, 0);
	uint64_t took = clock_now_ns() - begin;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(took < (uint64_t)WAIT_MS * NS_PER_MS);
	return r;
}

static void test_an_abandoned_draft_wakes_the_polling_thread(void **state)
{
	struct pool_rig *rig = *state;
	open_warm(rig);
	reserve(rig);
	assert_int_equal(poll_meanwhile(rig, abandon_when_waited_for), 0);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_refused_draft_wakes_the_polling_thread(void **state)
{
	struct pool_rig *rig = *state;
	open_warm(rig);
	reserve(rig);
	gd_pool_stop(rig->pool);
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_int_equal(gd_pool_outstanding(rig->pool), 1);
	assert_int_equal(poll_meanwhile(rig, commit_when_waited_for), -ECANCELED);
	assert_int_equal(committed, -ESHUTDOWN);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Between two steps of gd_pool_poll() -------------------------------- */

static struct gd_draft *_Atomic abandon_before_read;

/*
 * Replaces read(), also for the library. In these tests gd_pool_poll() calls read() only to
 * clear the event that woke it: after it has counted the outstanding tasks, and before it
 * sleeps. The draft is abandoned in that call.
 */
ssize_t read(int fd, void *buf, size_t size)
{
	struct gd_draft *d = atomic_exchange(&abandon_before_read, NULL);
	if (d)
		gd_draft_abandon(d);
	return syscall(SYS_read, fd, buf, size);
}

/* A draft is all that is outstanding, and the descriptor is readable since the last callback. */
static void open_signaled(struct pool_rig *rig)
{
	open_warm(rig);
	reserve(rig);
	abandon_before_read = draft.draft;
}

static void test_a_draft_abandoned_just_before_the_poller_sleeps_wakes_it(void **state)
{
	struct pool_rig *rig = *state;
	open_signaled(rig);
	uint64_t begin = clock_now_ns();
	assert_int_equal(gd_pool_poll(rig->pool, WAIT_MS, 0), 0);
	assert_true(clock_now_ns() - begin < (uint64_t)WAIT_MS * NS_PER_MS);
	assert_null(abandon_before_read);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_draft_abandoned_as_gd_pool_poll_returns_makes_the_descriptor_readable(void **state)
{
	struct pool_rig *rig = *state;
	open_signaled(rig);
	struct pollfd end = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_null(abandon_before_read);
	assert_int_equal(poll(&end, 1, 0), 1);
	/* Readable only once: an empty pool does not keep its loop awake. */
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_int_equal(poll(&end, 1, 0), 0);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_draft_abandoned_just_before_gd_pool_close_sleeps_wakes_it(void **state)
{
	struct pool_rig *rig = *state;
	open_signaled(rig);
	alarm(WAIT_MS / 1000);
	assert_int_equal(pool_rig_close(rig), 0);
	alarm(0);
	assert_null(abandon_before_read);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_draft_committed_in_the_callback_of_its_dead_worker_is_not_lost),
		pool_rig_test(test_draft_committed_after_its_worker_was_replaced_is_not_lost),
		pool_rig_test(test_draft_committed_after_its_worker_has_broken_the_rules_is_not_lost),
		pool_rig_test(test_draft_abandoned_after_its_worker_was_replaced_leaves_nothing),
		pool_rig_test(test_an_abandoned_draft_wakes_the_polling_thread),
		pool_rig_test(test_a_refused_draft_wakes_the_polling_thread),
		pool_rig_test(test_a_draft_abandoned_just_before_the_poller_sleeps_wakes_it),
		pool_rig_test(test_a_draft_abandoned_as_gd_pool_poll_returns_makes_the_descriptor_readable),
		pool_rig_test(test_a_draft_abandoned_just_before_gd_pool_close_sleeps_wakes_it),
	};
	return cmocka_run_group_tests_name("pool drafts", tests, NULL, NULL);
}
