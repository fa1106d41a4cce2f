/* SPDX-License-Identifier: MIT */
/* Stopped workers, and workers that even SIGKILL does not end. */
#include "pool_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "cgroup.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

static struct {
	struct cgroup group;
	bool there;
	pid_t pid;
} ice;

static struct cgroup shadow; /* whose processes get hardly any CPU time */

enum { ANSWER, STOP, FREEZE, STARVE };

/* Stops, freezes or starves itself if the job requests it: then the task has begun and has not timed out yet. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint32_t what = pool_rig_job(task).what;
	if (what == ANSWER)
		return pool_rig_just_reply(w, state, task);
	atomic_store(&board->notes[0], gd_worker_slot(w));
	board_add_pid(getpid());
	if (what == STOP)
		raise(SIGSTOP);
	else if (!cgroup_add(what == FREEZE ? &ice.group : &shadow, getpid()))
		_exit(95);
	for (volatile unsigned spin = 0; what == STARVE; spin++)
		;
	process_hang();
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};

/* Submits a task that does not end and returns the slot that has it. */
static int hold_one(struct pool_rig *rig, uint32_t what, int64_t timeout_ms, pid_t *ret_pid)
{
	pool_rig_pid(rig, 0, 0);
	rig->timeout_ms = timeout_ms;
	pool_rig_submit(rig, what, 0);
	rig->timeout_ms = 0;
	board_await(&board->num_pids, 1);
	*ret_pid = atomic_load(&board->pids[0]);
	return atomic_load(&board->notes[0]);
}

/* ---- SIGSTOP ------------------------------------------------------------ */

static void test_worker_stopped_mid_task_times_out_and_is_replaced(void **state)
{
	struct pool_rig *rig = *state;
	pid_t pid;
	rig->options.grace_ms = 20;
	pool_rig_open(rig, &ops);
	int slot = hold_one(rig, STOP, 200, &pid);
	pool_rig_submit_many(rig, 50);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->failure.event.id, 0);
	assert_int_equal(rig->successes, 50);
	assert_true(process_await_gone(pid, WAIT_MS));
	pool_rig_pid(rig, slot, pid);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* It never began its task, so the task goes to another worker. False if that one was late. */
static bool stopped_idle_costs_no_task(struct pool_rig *rig)
{
	rig->options.task_timeout_ms = 200;
	rig->options.grace_ms = 20;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_many(rig, 50);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes + rig->timeouts, 50);
	return rig->timeouts == 0 && rig->close_stats.restarts == 1;
}

static void test_worker_stopped_idle_with_a_timeout_costs_no_task(void **state)
{
	pool_rig_try(stopped_idle_costs_no_task(pool_rig_again(state)));
}

static bool only_one_left(struct pool_rig *rig)
{
	return gd_pool_outstanding(rig->pool) <= 1;
}

static void test_worker_stopped_without_a_timeout_holds_back_one_task(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 1, 0);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_many(rig, 500);
	pool_rig_await(rig, only_one_left);
	assert_int_equal(kill(pid, SIGCONT), 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 500);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

static void test_worker_stopped_mid_task_ends_with_the_second_stop(void **state)
{
	struct pool_rig *rig = *state;
	pid_t pid;
	rig->options.grace_ms = 50;
	pool_rig_open(rig, &ops);
	hold_one(rig, STOP, 0, &pid);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	pool_rig_drain(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 1);
	assert_int_equal(gd_pool_poll(rig->pool, 1000, 0), -ECANCELED);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_true(process_await_gone(pid, WAIT_MS));
}

static void test_worker_stopped_idle_is_killed_at_the_close(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.cleanup_timeout_ms = 100;
	pool_rig_open(rig, &ops);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->cleanup_failures, 1);
	assert_int_equal(rig->cleanup_failure.event.failure, GD_FAILURE_TIMED_OUT);
	assert_false(process_alive(pid));
}

/* ---- Frozen: SIGKILL does nothing --------------------------------------- */

/* A group that freezes all processes that join it. */
static bool make_ice(void)
{
	ice.pid = 0;
	if (!cgroup_create("freezer", &ice.group))
		return false;
	ice.there = true;
	assert_true(cgroup_settle(&ice.group, "freezer.state", "FROZEN"));
	return true;
}

/* Even after a failed test: nothing else would thaw the process. */
static int thaw_teardown(void **state)
{
	if (ice.there) {
		cgroup_settle(&ice.group, "freezer.state", "THAWED");
		if (ice.pid > 0)
			process_await_gone(ice.pid, WAIT_MS);
		cgroup_remove(&ice.group);
	}
	ice.there = false;
	return pool_rig_teardown(state);
}

/* The signal sent long ago takes effect now. */
static void assert_dies_when_thawed(void)
{
	assert_true(process_alive(ice.pid));
	assert_true(cgroup_settle(&ice.group, "freezer.state", "THAWED"));
	assert_true(process_await_gone(ice.pid, WAIT_MS));
}

/* Does not wait until the frozen worker dies, which it never does. */
static void close_in_time(struct pool_rig *rig)
{
	uint64_t before = clock_now_ns();
	assert_int_equal(pool_rig_close(rig), -EBUSY);
	assert_true(clock_now_ns() - before < (uint64_t)WAIT_MS / 2 * NS_PER_MS);
}

static void test_frozen_worker_is_given_up_and_the_run_goes_on(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.grace_ms = 20;
	rig->options.kill_wait_ms = 200;
	if (!make_ice())
		skip();
	pool_rig_open(rig, &ops);
	int slot = hold_one(rig, FREEZE, 100, &ice.pid);
	pool_rig_submit_many(rig, 50);
	pool_rig_drain(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_STUCK], 1);
	assert_int_equal(rig->failure.event.id, 0);
	check_contains(rig->failure.message, "cannot be killed");
	assert_int_equal(rig->successes, 50);
	assert_int_equal(pool_rig_worker(rig, slot).state, GD_WORKER_STATE_LOST);
	assert_true(process_alive(ice.pid));
	pool_rig_submit_many(rig, 50);
	pool_rig_drain(rig);
	close_in_time(rig);
	assert_dies_when_thawed();
}

static void test_frozen_idle_worker_does_not_keep_the_pool_open(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.cleanup_timeout_ms = 100;
	rig->options.kill_wait_ms = 200;
	if (!make_ice())
		skip();
	pool_rig_open(rig, &ops);
	ice.pid = pool_rig_pid(rig, 0, 0);
	assert_true(cgroup_add(&ice.group, ice.pid));
	assert_true(cgroup_settle(&ice.group, "freezer.state", "FROZEN"));
	close_in_time(rig);
	assert_int_equal(rig->cleanup_failures, 1);
	assert_int_equal(rig->cleanup_failure.event.failure, GD_FAILURE_STUCK);
	assert_dies_when_thawed();
}

static void test_every_worker_frozen_ends_every_task(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 20;
	rig->options.kill_wait_ms = 200;
	if (!make_ice())
		skip();
	pool_rig_open(rig, &ops);
	hold_one(rig, FREEZE, 100, &ice.pid);
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_STUCK], 1);
	assert_int_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 20);
	assert_int_equal(gd_pool_poll(rig->pool, 1000, 0), -ENODEV);
	close_in_time(rig);
	assert_dies_when_thawed();
}

/* ---- Starved: SIGKILL takes long ---------------------------------------- */

static void test_killed_worker_without_cpu_time_is_not_given_up(void **state)
{
	struct pool_rig *rig = *state;
	pid_t pid;
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 20;
	rig->options.kill_wait_ms = 50;
	if (!cgroup_create("cpu", &shadow))
		skip();
	/* A millisecond in each second. */
	if (!cgroup_write(&shadow, "cpu.cfs_period_us", "1000000") ||
		!cgroup_write(&shadow, "cpu.cfs_quota_us", "1000")) {
		cgroup_remove(&shadow);
		skip();
	}
	pool_rig_open(rig, &ops);
	hold_one(rig, STARVE, 100, &pid);
	pool_rig_drain(rig);
	assert_true(process_await_gone(pid, WAIT_MS));
	cgroup_remove(&shadow);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(rig->by_failure[GD_FAILURE_STUCK], 0);
	pool_rig_submit(rig, ANSWER, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

#define STUCK(test) cmocka_unit_test_setup_teardown(test, pool_rig_setup, thaw_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STUCK(test_worker_stopped_mid_task_times_out_and_is_replaced),
		STUCK(test_worker_stopped_idle_with_a_timeout_costs_no_task),
		STUCK(test_worker_stopped_without_a_timeout_holds_back_one_task),
		STUCK(test_worker_stopped_mid_task_ends_with_the_second_stop),
		STUCK(test_worker_stopped_idle_is_killed_at_the_close),
		STUCK(test_frozen_worker_is_given_up_and_the_run_goes_on),
		STUCK(test_frozen_idle_worker_does_not_keep_the_pool_open),
		STUCK(test_every_worker_frozen_ends_every_task),
		STUCK(test_killed_worker_without_cpu_time_is_not_given_up),
	};
	return cmocka_run_group_tests_name("pool stuck", tests, NULL, NULL);
}
