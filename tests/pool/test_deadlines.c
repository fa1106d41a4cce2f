/* SPDX-License-Identifier: MIT */
/* Timeouts of tasks while the warden waits for another, distant deadline. */
#include "pool_rig.h"

#include <stdatomic.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define FAR_MS (10 * WAIT_MS)

enum { ANSWER, HANG };

static int setup(struct gd_worker *w, void **ret_state)
{
	int r = pool_rig_note_setup(w, ret_state);
	board_await(&board->go, 1);
	return r;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == HANG)
		process_hang();
	return pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process};

static int hasty_setup(void **state)
{
	int r = pool_rig_setup(state);
	struct pool_rig *rig = *state;
	rig->options.task_timeout_ms = 20;
	rig->options.grace_ms = 20;
	return r;
}

static void test_a_task_times_out_though_the_setup_had_longer(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.setup_timeout_ms = FAR_MS;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, HANG, 0);
	board_await(&board->setups, 1);
	pid_t warden = process_parent((pid_t)atomic_load(&board->pids[0]));
	process_await_asleep(warden);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static bool one_timeout(struct pool_rig *rig)
{
	return rig->timeouts >= 1;
}

/* A traced process remains a zombie, invisible to its parent, until the tracer has waited for it. */
static void test_a_task_times_out_though_a_killed_worker_lingers(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.kill_wait_ms = FAR_MS;
	rig->options.task_timeout_ms = 500; /* long enough to begin tracing the worker */
	atomic_store(&board->go, 1);
	pool_rig_open(rig, &ops);
	pid_t pids[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
	pool_rig_submit(rig, HANG, 0);
	int slot = pool_rig_worker(rig, 0).state == GD_WORKER_STATE_BUSY ? 0 : 1;
	if (ptrace(PTRACE_SEIZE, pids[slot], NULL, NULL) < 0) {
		gd_pool_close(rig->pool, NULL, 0, NULL);
		skip();
	}
	assert_true(process_await_gone(pids[slot], WAIT_MS));
	pool_rig_submit(rig, HANG, 0);
	pool_rig_await(rig, one_timeout); /* of the other worker: the first is not reaped yet */
	assert_int_equal(rig->failure.event.id, 1);
	assert_int_equal(rig->failure.event.slot, 1 - slot);
	assert_int_equal(waitpid(pids[slot], NULL, __WALL), pids[slot]);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 2);
	assert_int_equal(pool_rig_close(rig), 0);
}

#define DEADLINE(test) cmocka_unit_test_setup_teardown(test, hasty_setup, pool_rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEADLINE(test_a_task_times_out_though_the_setup_had_longer),
		DEADLINE(test_a_task_times_out_though_a_killed_worker_lingers),
	};
	return cmocka_run_group_tests_name("pool deadlines", tests, NULL, NULL);
}
