/* SPDX-License-Identifier: MIT */
/* Tasks that are being written while something happens to their worker or their pool. */
#include "trial.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { ANSWER, DIE };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct job job;
	memcpy(&job, task->data, sizeof(job));
	if (job.what == DIE) {
		atomic_store(&board->begun, 1);
		board_await(&board->go, 1);
		raise(SIGKILL);
	}
	return trial_reply(w, &job);
}

static const struct gd_worker_ops ops = {.process = process};

/* ---- Its worker dies ---------------------------------------------------- */

static struct {
	struct trial *trial;
	struct gd_draft *draft;
	void *data;
	gd_callback *on_error;
} draft;

/* One worker whose tasks are known to be short, so that there is room in its inbox for one more. */
static void open_warm(struct trial *t)
{
	t->options.gpus = "sim:1";
	trial_open(t, &ops);
	trial_submit_many(t, 200);
	trial_drain(t);
}

static void reserve(struct trial *t)
{
	assert_int_equal(gd_reserve(t->pool, 100, GD_NOWAIT, &draft.draft, &draft.data), 0);
}

static void commit(struct trial *t)
{
	struct job job = {.what = ANSWER, .number = t->submitted};
	uint64_t id = 0;
	memcpy(draft.data, &job, sizeof(job));
	trial_equal(gd_commit(draft.draft, 100, NULL, &id), 0);
	trial_check(id == t->submitted);
	t->submitted++;
	draft.draft = NULL;
}

static int commit_at_the_funeral(void *context, const struct gd_event *event)
{
	int r = draft.on_error(context, event);
	commit(context);
	return r;
}

static void test_a_draft_committed_while_its_worker_is_buried_is_not_lost(void **state)
{
	struct trial *t = *state;
	draft.on_error = t->options.on_error;
	t->options.on_error = commit_at_the_funeral;
	open_warm(t);
	trial_submit(t, DIE, 0);
	board_await(&board->begun, 1);
	reserve(t);
	atomic_store(&board->go, 1);
	trial_drain(t);
	assert_null(draft.draft);
	assert_int_equal(t->errors, 1);
	assert_int_equal(t->successes, 201);
	assert_int_equal(trial_close(t), 0);
}

static void test_a_draft_committed_after_its_worker_was_buried_is_not_lost(void **state)
{
	struct trial *t = *state;
	open_warm(t);
	pid_t pid = trial_pid(t, 0, 0);
	reserve(t);
	process_kill(pid);
	trial_pid(t, 0, pid);
	commit(t);
	trial_drain(t);
	assert_int_equal(t->successes, 201);
	assert_int_equal(trial_close(t), 0);
}

static void test_a_draft_abandoned_after_its_worker_was_buried_leaves_nothing(void **state)
{
	struct trial *t = *state;
	open_warm(t);
	pid_t pid = trial_pid(t, 0, 0);
	reserve(t);
	process_kill(pid);
	trial_pid(t, 0, pid);
	memset(draft.data, 'x', 100); /* still ours to write */
	gd_abandon(draft.draft);
	assert_int_equal(gd_outstanding(t->pool), 0);
	trial_submit_many(t, 10);
	trial_drain(t);
	assert_int_equal(trial_close(t), 0);
}

/* ---- Somebody waits for it ---------------------------------------------- */

static int committed;

static void *abandon_when_waited_for(void *poller)
{
	thread_await_asleep(getpid(), *(pid_t *)poller);
	gd_abandon(draft.draft);
	return NULL;
}

static void *commit_when_waited_for(void *poller)
{
	thread_await_asleep(getpid(), *(pid_t *)poller);
	committed = gd_commit(draft.draft, 100, NULL, NULL);
	return NULL;
}

/* What gd_poll() says when the draft is all that it waits for. */
static int poll_meanwhile(struct trial *t, void *(*meanwhile)(void *poller))
{
	pid_t self = getpid();
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, meanwhile, &self), 0);
	uint64_t begin = clock_now_ns();
	int r = gd_poll(t->pool, TRIAL_WAIT_MS);
	uint64_t took = clock_now_ns() - begin;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(took < (uint64_t)TRIAL_WAIT_MS * NS_PER_MS);
	return r;
}

static void test_an_abandoned_draft_wakes_whoever_polls(void **state)
{
	struct trial *t = *state;
	open_warm(t);
	reserve(t);
	assert_int_equal(poll_meanwhile(t, abandon_when_waited_for), 0);
	assert_int_equal(trial_close(t), 0);
}

static void test_a_refused_draft_wakes_whoever_polls(void **state)
{
	struct trial *t = *state;
	open_warm(t);
	reserve(t);
	gd_pool_stop(t->pool);
	assert_int_equal(gd_poll(t->pool, 0), 0);
	assert_int_equal(gd_outstanding(t->pool), 1);
	assert_int_equal(poll_meanwhile(t, commit_when_waited_for), -ECANCELED);
	assert_int_equal(committed, -ESHUTDOWN);
	assert_int_equal(trial_close(t), 0);
}

#define DRAFT(test) cmocka_unit_test_setup_teardown(test, trial_setup, trial_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DRAFT(test_a_draft_committed_while_its_worker_is_buried_is_not_lost),
		DRAFT(test_a_draft_committed_after_its_worker_was_buried_is_not_lost),
		DRAFT(test_a_draft_abandoned_after_its_worker_was_buried_leaves_nothing),
		DRAFT(test_an_abandoned_draft_wakes_whoever_polls),
		DRAFT(test_a_refused_draft_wakes_whoever_polls),
	};
	return cmocka_run_group_tests_name("pool drafts", tests, NULL, NULL);
}
