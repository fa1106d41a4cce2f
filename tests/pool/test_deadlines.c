/* SPDX-License-Identifier: MIT */
/* Timeouts of tasks while the warden has another deadline in mind, far away. */
#include "trial.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAR_MS (10 * TRIAL_WAIT_MS)

enum { ANSWER, HANG };

static int setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	board_add_pid(getpid());
	atomic_fetch_add(&board->setups, 1);
	board_await(&board->go, 1);
	return 0;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct job job;
	memcpy(&job, task->data, sizeof(job));
	while (job.what == HANG)
		pause();
	return trial_reply(w, &job);
}

static const struct gd_worker_ops ops = {.setup = setup, .process = process};

static int hasty_setup(void **state)
{
	int r = trial_setup(state);
	struct trial *t = *state;
	t->options.task_timeout_ms = 20;
	t->options.grace_ms = 20;
	return r;
}

static void test_a_task_times_out_though_the_setup_had_longer(void **state)
{
	struct trial *t = *state;
	t->options.gpus = "sim:1";
	t->options.setup_timeout_ms = FAR_MS;
	trial_open(t, &ops);
	trial_submit(t, HANG, 0);
	board_await(&board->setups, 1);
	pid_t warden = process_parent((pid_t)atomic_load(&board->pids[0]));
	thread_await_asleep(warden, warden);
	atomic_store(&board->go, 1);
	trial_drain(t);
	assert_int_equal(t->timeouts, 1);
	assert_int_equal(trial_close(t), 0);
}

static bool one_timeout(struct trial *t)
{
	return t->timeouts >= 1;
}

/* A process that is traced stays a zombie, for its parent not to be seen, until the tracer has looked. */
static void test_a_task_times_out_though_a_killed_worker_lingers(void **state)
{
	struct trial *t = *state;
	t->options.kill_wait_ms = FAR_MS;
	atomic_store(&board->go, 1);
	trial_open(t, &ops);
	pid_t pids[2] = {trial_pid(t, 0, 0), trial_pid(t, 1, 0)};
	trial_submit(t, HANG, 0);
	int slot = trial_worker(t, 0).state == GD_WORKER_BUSY ? 0 : 1;
	if (ptrace(PTRACE_SEIZE, pids[slot], NULL, NULL) < 0) {
		gd_close(t->pool, NULL, NULL);
		skip();
	}
	assert_true(process_gone(pids[slot], TRIAL_WAIT_MS));
	trial_submit(t, HANG, 0);
	trial_await(t, one_timeout); /* of the other, for the first is not reaped yet */
	assert_int_equal(t->failure.event.id, 1);
	assert_int_equal(t->failure.event.slot, 1 - slot);
	assert_int_equal(waitpid(pids[slot], NULL, __WALL), pids[slot]);
	trial_drain(t);
	assert_int_equal(t->timeouts, 2);
	assert_int_equal(trial_close(t), 0);
}

#define DEADLINE(test) cmocka_unit_test_setup_teardown(test, hasty_setup, trial_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEADLINE(test_a_task_times_out_though_the_setup_had_longer),
		DEADLINE(test_a_task_times_out_though_a_killed_worker_lingers),
	};
	return cmocka_run_group_tests_name("pool deadlines", tests, NULL, NULL);
}
