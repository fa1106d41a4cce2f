/* SPDX-License-Identifier: MIT */
/* Workers that are killed, that crash, leave or hang, in each of their hooks. */
#include "pool_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/board.h"
#include "support/process.h"

enum way {
	WELL,
	HOLD, /* until killed */
	FAIL,
	SEGFAULT,
	ABORT,
	EXIT,
	LOOP,
	OVERFLOW,
};

static int overflow(volatile int depth)
{
	volatile char space[4096];
	space[depth % 4096] = (char)depth;
	return depth > 1 << 30 ? 0 : overflow(depth + 1) + space[0];
}

/* Volatile, so that the compiler keeps the infinite loop. */
static volatile int forever = 1;

static int end_by(struct gd_worker *w, enum way way)
{
	switch (way) {
	case WELL:
		break;
	case HOLD:
		process_hang();
	case FAIL:
		return gd_worker_fail(w, -EIO, "as it was told");
	case SEGFAULT:
		*(volatile int *)(uintptr_t)0xdead0 = 1;
		break;
	case ABORT:
		abort();
	case EXIT:
		exit(3);
	case LOOP:
		while (forever)
			;
		break;
	case OVERFLOW:
		return overflow(1) > 0;
	}
	return 0;
}

/* Which hook fails and how, in which slot, and after how many processes of the slot; inherited by the forks. */
static struct {
	enum way setup, cleanup;
	int slot;
	int lives; /* setups of this slot that succeed first */
} plan;

static int setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	atomic_fetch_add(&board->setups, 1);
	if (plan.slot >= 0 && gd_worker_slot(w) != plan.slot)
		return 0;
	int own = atomic_fetch_add(&board->notes[0], 1);
	return own < plan.lives ? 0 : end_by(w, plan.setup);
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->begun, 1);
	int r = pool_rig_intact(task) ? end_by(w, (enum way)job.what)
				      : gd_worker_fail(w, -EBADMSG, "not what was submitted");
	return r < 0 ? r : pool_rig_reply(w, &job);
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	atomic_fetch_add(&board->cleanups, 1);
	return plan.slot < 0 || gd_worker_slot(w) == plan.slot ? end_by(w, plan.cleanup) : 0;
}

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process, .cleanup = cleanup};

static int plan_setup(void **state)
{
	memset(&plan, 0, sizeof(plan));
	return pool_rig_setup(state);
}

/* ---- Killed ------------------------------------------------------------- */

static void test_worker_killed_idle_is_replaced_and_no_task_fails(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 10);
	pool_rig_drain(rig);
	pid_t first = pool_rig_pid(rig, 0, 0);
	pid_t other = pool_rig_pid(rig, 1, 0);
	process_kill(first);
	pool_rig_pid(rig, 0, first);
	assert_int_equal(pool_rig_pid(rig, 1, 0), other);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 110);
	assert_int_equal(rig->close_stats.restarts, 1);
	assert_int_equal(rig->setup_failures, 0);
	assert_int_equal(atomic_load(&board->cleanups), 2);
}

static void test_worker_killed_mid_task_fails_only_that_task(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, HOLD, 0);
	pool_rig_await(rig, pool_rig_has_started);
	board_await(&board->begun, 1);
	int slot = pool_rig_worker(rig, 0).has_task ? 0 : 1;
	pid_t pid = pool_rig_pid(rig, slot, 0);
	pool_rig_submit_many(rig, 50);
	process_kill(pid);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 50);
	assert_int_equal(rig->errors, 1);
	assert_int_equal(rig->failure.event.id, 0);
	assert_int_equal(rig->failure.event.failure, GD_FAILURE_CRASHED);
	assert_int_equal(rig->failure.event.signal, SIGKILL);
	assert_int_equal(rig->failure.event.slot, slot);
	assert_int_equal(rig->failure.event.attempt, 1);
	assert_true(rig->failure.event.queued_ns > 0 && rig->failure.event.started_ns >= rig->failure.event.queued_ns);
	assert_true(rig->failure.event.ended_ns >= rig->failure.event.started_ns);
	check_contains(rig->failure.message, "SIGKILL");
	pool_rig_pid(rig, slot, pid);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- At bad moments ----------------------------------------------------- */

#define KILL_SEED 20240229u

static void test_worker_killed_under_a_draft_costs_no_task(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 1);
	pool_rig_drain(rig);
	for (int i = 0; i < 4; i++) {
		struct gd_draft *draft;
		void *data;
		pid_t pid = pool_rig_pid(rig, 0, 0);
		assert_int_equal(gd_pool_reserve(rig->pool, 10000, NOWAIT, &draft, &data), 0);
		process_kill(pid);
		pool_rig_pid(rig, 0, pid);
		struct rig_job job = {.number = rig->submitted};
		pool_rig_fill(data, 10000, &job);
		if (i % 2) {
			gd_draft_abandon(draft);
		} else {
			assert_int_equal(gd_draft_commit(draft, 10000, NULL, NULL), 0);
			rig->submitted++;
		}
		pool_rig_submit_many(rig, 5);
		pool_rig_drain(rig);
	}
	assert_int_equal(rig->successes, rig->submitted);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_worker_killed_during_close_does_not_delay_it(void **state)
{
	struct pool_rig *rig;
	unsigned seed = KILL_SEED;
	for (int i = 0; i < 40; i++) {
		rig = pool_rig_again(state);
		pool_rig_open(rig, &ops);
		const pid_t pids[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
		pool_rig_submit_many(rig, (size_t)(rand_r(&seed) % 30));
		for (int slot = 0; slot < 2; slot++)
			if (i % 3 != slot)
				kill(pids[slot], SIGKILL);
		if (i % 2)
			gd_pool_poll(rig->pool, 0, 0);
		assert_int_equal(pool_rig_close(rig), 0);
	}
}

/* ---- In process --------------------------------------------------------- */

struct end_case {
	enum way way;
	enum gd_failure failure;
	int signal;
	const char *words;
};

static void run_bad_tasks(struct pool_rig *rig, const struct end_case *cases, size_t count)
{
	rig->options.output = GD_OUTPUT_SILENT;
	pool_rig_open(rig, &ops);
	for (size_t i = 0; i < count; i++) {
		pool_rig_submit_many(rig, 5);
		rig->timeout_ms = cases[i].failure == GD_FAILURE_TIMED_OUT ? 300 : 0;
		pool_rig_submit(rig, cases[i].way, 0);
		rig->timeout_ms = 0;
		uint64_t id = rig->submitted - 1;
		pool_rig_submit_many(rig, 20);
		pool_rig_drain(rig);
		assert_int_equal(rig->errors + rig->timeouts, i + 1);
		assert_int_equal(rig->failure.event.id, id);
		assert_int_equal(rig->failure.event.failure, cases[i].failure);
		assert_int_equal(rig->failure.event.signal, cases[i].signal);
		check_contains(rig->failure.message, cases[i].words);
		if (cases[i].way == SEGFAULT)
			assert_int_equal(rig->failure.event.address, 0xdead0);
	}
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures + rig->cleanup_failures, 0);
}

static void test_crash_in_process_fails_only_that_task(void **state)
{
	static const struct end_case cases[] = {
		{SEGFAULT, GD_FAILURE_CRASHED, SIGSEGV, "0xdead0"},
		{ABORT, GD_FAILURE_CRASHED, SIGABRT, "SIGABRT"},
		{EXIT, GD_FAILURE_CRASHED, 0, "exit(3)"},
		{OVERFLOW, GD_FAILURE_CRASHED, SIGSEGV, "SIGSEGV"},
		{FAIL, GD_FAILURE_ERROR, 0, "as it was told"},
	};
	struct pool_rig *rig = *state;
	run_bad_tasks(rig, cases, 5);
	/* Only the failure leaves its worker alive. */
	assert_int_equal(rig->close_stats.restarts, 4);
}

static void test_hang_in_process_fails_only_that_task(void **state)
{
	static const struct end_case cases[] = {
		{LOOP, GD_FAILURE_TIMED_OUT, SIGKILL, "300 ms"},
		{HOLD, GD_FAILURE_TIMED_OUT, SIGKILL, "300 ms"},
	};
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	run_bad_tasks(rig, cases, 2);
	/* More, if a worker was too slow to begin the task in its time. */
	assert_true(rig->close_stats.restarts >= 2);
}

/* ---- In setup ----------------------------------------------------------- */

static const struct {
	enum way way;
	enum gd_failure failure;
	int code;
	int signal;
	const char *words;
} setup_cases[] = {
	{FAIL, GD_FAILURE_ERROR, -EIO, 0, "as it was told"},
	{SEGFAULT, GD_FAILURE_CRASHED, 0, SIGSEGV, "in setup"},
	{ABORT, GD_FAILURE_CRASHED, 0, SIGABRT, "in setup"},
	{EXIT, GD_FAILURE_CRASHED, 0, 0, "exit(3) in setup"},
	{LOOP, GD_FAILURE_TIMED_OUT, 0, 0, "within 100 ms"},
	{HOLD, GD_FAILURE_TIMED_OUT, 0, 0, "within 100 ms"},
};
#define SETUP_CASES (sizeof(setup_cases) / sizeof(setup_cases[0]))

static struct pool_rig *again(void **state)
{
	struct pool_rig *rig = pool_rig_again(state);
	rig->options.output = GD_OUTPUT_SILENT;
	return rig;
}

static void assert_setup_failure(const struct pool_rig *rig, size_t i)
{
	const struct kept_event *k = &rig->setup_failure;
	assert_int_equal(k->event.failure, setup_cases[i].failure);
	assert_int_equal(k->event.code, setup_cases[i].code);
	assert_int_equal(k->event.signal, setup_cases[i].signal);
	check_contains(k->message, setup_cases[i].words);
}

/* False if the setup of slot 0 was late. */
static bool run_with_one_bad_setup(struct pool_rig *rig, size_t i)
{
	bool limited = setup_cases[i].failure == GD_FAILURE_TIMED_OUT;
	plan.slot = 1;
	plan.setup = setup_cases[i].way;
	if (limited)
		rig->options.setup_timeout_ms = 100;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 40);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	pool_rig_drain(rig);
	bool late = limited && pool_rig_worker(rig, 0).state == GD_WORKER_STATE_LOST;
	if (!late) {
		assert_int_equal(rig->successes, 40);
		assert_setup_failure(rig, i);
		assert_int_equal(rig->setup_failure.event.slot, 1);
		assert_int_equal(rig->setup_failure.event.gpu, 1);
		assert_int_equal(rig->setup_failures, 1);
	}
	assert_int_equal(pool_rig_worker(rig, 1).state, GD_WORKER_STATE_LOST);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.setup_failures, late ? 2 : 1);
	return !late;
}

static void test_one_bad_setup_takes_out_its_slot_alone(void **state)
{
	for (size_t i = 0; i < SETUP_CASES; i++)
		pool_rig_try(run_with_one_bad_setup(again(state), i));
}

static void test_failure_of_all_setups_ends_every_task_as_no_worker(void **state)
{
	for (size_t i = 0; i < SETUP_CASES; i++) {
		struct pool_rig *rig = again(state);
		plan.slot = -1;
		plan.setup = setup_cases[i].way;
		if (setup_cases[i].failure == GD_FAILURE_TIMED_OUT)
			rig->options.setup_timeout_ms = 100;
		pool_rig_open(rig, &ops);
		pool_rig_submit_many(rig, 40);
		pool_rig_drain(rig);
		assert_int_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 40);
		assert_int_equal(rig->setup_failures, 2);
		assert_setup_failure(rig, i);
		assert_int_equal(gd_pool_poll(rig->pool, 1000, 0), -ENODEV);
		assert_int_equal(gd_pool_submit(rig->pool, "x", 1, NULL, NULL, NULL), -ENODEV);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->setup_failures, 2);
	}
}

static int endless(void *context, struct gd_feed *feed)
{
	struct pool_rig *rig = context;
	struct rig_job job = {.number = rig->submitted};
	int r = gd_feed_emit(feed, &job, sizeof(job), NULL, NULL);
	if (r < 0)
		return r;
	rig->submitted++;
	return 1;
}

static void test_failure_of_all_setups_ends_an_endless_run(void **state)
{
	struct pool_rig *rig = *state;
	struct gd_dispatcher *d;
	struct gd_error err;
	plan.slot = -1;
	plan.setup = SEGFAULT;
	rig->options.worker = &ops;
	pool_rig_reserve(rig, 100000);
	assert_int_equal(gd_dispatcher_create(&rig->options, &d, &err), 0);
	struct gd_run run = {.size = sizeof(run), .generator = endless, .generator_context = rig};
	assert_int_equal(gd_dispatcher_run(d, &run, &rig->calls, &err), -ENODEV);
	gd_dispatcher_stats(d, &rig->close_stats, sizeof(rig->close_stats));
	check_contains(err.message, "no worker is left");
	assert_int_equal(rig->exits, 1);
	assert_int_equal(rig->by_failure[GD_FAILURE_NO_WORKER], rig->submitted);
	assert_int_equal(rig->close_stats.submitted, rig->submitted);
	pool_rig_check_books(rig);
	gd_dispatcher_destroy(d);
}

static void test_bad_setup_of_a_replacement_gets_three_tries(void **state)
{
	struct pool_rig *rig = *state;
	plan.slot = 0;
	plan.setup = FAIL;
	plan.lives = 1;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 1, 0);
	process_kill(pool_rig_pid(rig, 0, 0));
	pool_rig_await(rig, pool_rig_has_setup_failure);
	assert_int_equal(atomic_load(&board->notes[0]), 4);
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 20);
	assert_int_equal(rig->setup_failures, 1);
}

static void test_close_does_not_wait_for_an_endless_setup(void **state)
{
	struct pool_rig *rig = *state;
	plan.slot = 1;
	plan.setup = LOOP;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 10);
	pool_rig_drain(rig);
	board_await(&board->setups, 2);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->setup_failures, 0);
}

/* ---- In cleanup --------------------------------------------------------- */

/* False if the cleanup of slot 0 was late. */
static bool run_with_bad_cleanup(struct pool_rig *rig, const struct end_case *c)
{
	plan.slot = 1;
	plan.cleanup = c->way;
	if (c->failure == GD_FAILURE_TIMED_OUT)
		rig->options.cleanup_timeout_ms = 100;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 20);
	if (c->failure == GD_FAILURE_TIMED_OUT && rig->cleanup_failures == 2)
		return false;
	assert_int_equal(atomic_load(&board->cleanups), 2);
	assert_int_equal(rig->cleanup_failures, 1);
	assert_int_equal(rig->cleanup_failure.event.slot, 1);
	assert_int_equal(rig->cleanup_failure.event.failure, c->failure);
	assert_int_equal(rig->cleanup_failure.event.signal, c->signal);
	check_contains(rig->cleanup_failure.message, c->words);
	return true;
}

static void test_bad_cleanup_is_reported_once_and_costs_no_task(void **state)
{
	static const struct end_case cases[] = {
		{FAIL, GD_FAILURE_ERROR, 0, "as it was told"},
		{SEGFAULT, GD_FAILURE_CRASHED, SIGSEGV, "in cleanup"},
		{ABORT, GD_FAILURE_CRASHED, SIGABRT, "in cleanup"},
		{EXIT, GD_FAILURE_CRASHED, 0, "exit(3) in cleanup"},
		{LOOP, GD_FAILURE_TIMED_OUT, 0, "within 100 ms"},
		{HOLD, GD_FAILURE_TIMED_OUT, 0, "within 100 ms"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		pool_rig_try(run_with_bad_cleanup(again(state), &cases[i]));
}

/* ---- Ordered, with retries ---------------------------------------------- */

/* Crashes in its first two attempts. */
static int process_at_third(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct rig_job job = pool_rig_job(task);
	if (job.what != WELL && gd_worker_attempt(w, 0) == 3)
		job.what = WELL;
	return process(w, state, &(struct gd_bytes){.data = &job, .size = sizeof(job)});
}

static void test_ordered_with_retries_and_crashes_keeps_the_order(void **state)
{
	static const struct gd_worker_ops third = {
		.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process_at_third};
	struct pool_rig *rig = *state;
	rig->options.ordered = true;
	rig->options.retries = 2;
	rig->options.gpus = "sim:3";
	rig->options.output = GD_OUTPUT_SILENT;
	pool_rig_open(rig, &third);
	size_t bad = 0;
	for (int i = 0; i < 300; i++, bad += i % 10 == 0)
		pool_rig_submit(rig, i % 10 == 9 ? i % 20 == 9 ? SEGFAULT : FAIL : WELL, 0);
	pool_rig_drain(rig);
	assert_false(rig->out_of_order);
	assert_int_equal(rig->successes, 300);
	assert_int_equal(rig->starts, 300 + 2 * bad);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 2 * bad);
}

static void test_ordered_with_too_few_retries_fails_in_its_turn(void **state)
{
	static const struct gd_worker_ops third = {
		.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process_at_third};
	struct pool_rig *rig = *state;
	rig->options.ordered = true;
	rig->options.retries = 1;
	rig->options.output = GD_OUTPUT_SILENT;
	pool_rig_open(rig, &third);
	for (int i = 0; i < 50; i++)
		pool_rig_submit(rig, i == 7 ? ABORT : WELL, 0);
	pool_rig_drain(rig);
	assert_false(rig->out_of_order);
	assert_int_equal(rig->successes, 49);
	assert_int_equal(rig->failure.event.id, 7);
	assert_int_equal(rig->failure.event.attempt, 2);
	assert_int_equal(rig->failure.event.signal, SIGABRT);
	assert_int_equal(pool_rig_close(rig), 0);
}

#define DEATH(test) cmocka_unit_test_setup_teardown(test, plan_setup, pool_rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEATH(test_worker_killed_idle_is_replaced_and_no_task_fails),
		DEATH(test_worker_killed_mid_task_fails_only_that_task),
		DEATH(test_worker_killed_under_a_draft_costs_no_task),
		DEATH(test_worker_killed_during_close_does_not_delay_it),
		DEATH(test_crash_in_process_fails_only_that_task),
		DEATH(test_hang_in_process_fails_only_that_task),
		DEATH(test_one_bad_setup_takes_out_its_slot_alone),
		DEATH(test_failure_of_all_setups_ends_every_task_as_no_worker),
		DEATH(test_failure_of_all_setups_ends_an_endless_run),
		DEATH(test_bad_setup_of_a_replacement_gets_three_tries),
		DEATH(test_close_does_not_wait_for_an_endless_setup),
		DEATH(test_bad_cleanup_is_reported_once_and_costs_no_task),
		DEATH(test_ordered_with_retries_and_crashes_keeps_the_order),
		DEATH(test_ordered_with_too_few_retries_fails_in_its_turn),
	};
	return cmocka_run_group_tests_name("pool deaths", tests, NULL, NULL);
}
