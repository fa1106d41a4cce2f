/* SPDX-License-Identifier: MIT */
/* on_cancel: hooks that cannot poll are interrupted, and the worker keeps its model. */
#include "pool_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/board.h"
#include "support/wait.h"

enum { ANSWER, SLEEP, READ, SPIN, FILL }; /* argument of ANSWER: 1 if it may be cancelled meanwhile */

#define LARGE ((size_t)2 << 20) /* two of them fill the outbox */

/* The model that setup loads: its address shows whether it is the same process. */
struct model {
	volatile sig_atomic_t interrupted;
	uint64_t task; /* the last task that on_cancel was called for; UINT64_MAX: none */
	int wrong;     /* calls that should not have been made */
	volatile sig_atomic_t rescues;
	int pipe[2]; /* nothing is ever written */
};

static struct model model = {.task = UINT64_MAX};

/* A signal may arrive between the check of the flag and the system call, which then blocks: rarely, not always. */
static void rescue(int sig)
{
	(void)sig;
	model.rescues++;
}

static int load(struct gd_worker *w, void **ret_state)
{
	(void)w;
	const struct sigaction action = {.sa_handler = rescue};
	if (pipe(model.pipe) < 0 || sigaction(SIGALRM, &action, NULL) < 0)
		return -errno;
	*ret_state = &model;
	if (board)
		atomic_fetch_add(&board->setups, 1);
	return 0;
}

static void interrupt(struct gd_worker *w, void *state)
{
	struct model *m = state;
	uint64_t task = gd_worker_task_id(w, 0);
	m->wrong += !gd_worker_cancelled(w, 0) || task == m->task;
	m->task = task;
	m->interrupted = 1;
	int reason = gd_worker_cancel_reason(w, 0);
	m->wrong += reason != -ETIMEDOUT && reason != -ECANCELED;
	if (board) {
		atomic_fetch_add(&board->notes[1], 1);
		atomic_fetch_add(&board->notes[2], reason == -ETIMEDOUT);
	}
}

/* Waits in a system call until on_cancel was called. Only EINTR ends the call. */
static void block(struct model *m, uint32_t what)
{
	char byte;
	alarm(10);
	while (!m->interrupted) {
		if (what == READ && read(m->pipe[0], &byte, 1) < 0 && errno != EINTR)
			m->wrong++;
		if (what == SLEEP)
			nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
	}
	alarm(0);
	m->wrong += m->rescues > 1;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct model *m = state;
	struct rig_job job = pool_rig_job(task);
	m->interrupted = 0;
	if (gd_worker_cancelled(w, 0))
		m->interrupted = 1; /* on_cancel may have been called just before */
	if (board)
		atomic_fetch_add(&board->begun, 1);
	if (job.what != ANSWER)
		block(m, job.what);
	else if (!job.argument)
		m->wrong += gd_worker_cancel_reason(w, 0) != 0;
	if (m->wrong)
		return gd_worker_fail(w, -EPROTO, "on_cancel was called %d times too often", m->wrong);
	if (job.what != ANSWER)
		return gd_worker_fail(w, -EINTR, "interrupted");
	return pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .setup = load, .process = process, .on_cancel = interrupt};
static const char *const argv[] = {"/proc/self/exe", "--worker", NULL};

static void open_one(struct pool_rig *rig, const struct gd_worker_ops *worker)
{
	rig->options.gpus = "sim:1";
	if (!rig->options.grace_ms)
		rig->options.grace_ms = WAIT_MS;
	pool_rig_open(rig, worker);
	pool_rig_pid(rig, 0, 0);
}

/* After interrupted tasks, the same process takes the next one. */
static void check_worker_is_well(struct pool_rig *rig)
{
	size_t before = rig->successes;
	rig->timeout_ms = 0;
	pool_rig_submit(rig, ANSWER, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, before + 1);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

static void test_a_task_out_of_time_is_interrupted_and_the_model_stays(void **state)
{
	static const uint32_t kinds[] = {SPIN, SLEEP, READ};
	for (int executed = 0; executed < 2; executed++) {
		struct pool_rig *rig = pool_rig_again(state);
		rig->options.worker_argv = executed ? argv : NULL;
		open_one(rig, executed ? NULL : &ops);
		rig->timeout_ms = 10;
		for (size_t i = 0; i < 6; i++)
			pool_rig_submit(rig, kinds[i % 3], 0);
		pool_rig_drain(rig);
		assert_int_equal(rig->timeouts, 6);
		assert_string_equal(rig->failure.message, "not finished within 10 ms");
		assert_int_equal(board->notes[2], executed ? 0 : 6); /* an executed worker has no board */
		check_worker_is_well(rig);
	}
}

static void test_a_cancelled_task_is_interrupted(void **state)
{
	static const uint32_t kinds[] = {SPIN, SLEEP, READ};
	struct pool_rig *rig = *state;
	open_one(rig, &ops);
	for (int i = 0; i < 9; i++) {
		pool_rig_submit(rig, kinds[i % 3], 0);
		board_await(&board->begun, i + 1);
		assert_int_equal(gd_pool_cancel(rig->pool, rig->submitted - 1), 0);
		pool_rig_drain(rig);
		assert_int_equal(rig->cancelled, (size_t)i + 1);
		assert_string_equal(rig->failure.message, "interrupted");
	}
	assert_int_equal(board->notes[1], 9);
	assert_int_equal(board->notes[2], 0);
	check_worker_is_well(rig);
}

static void test_the_second_stop_interrupts(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &ops);
	pool_rig_submit(rig, READ, 0);
	board_await(&board->begun, 1);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	int r;
	while ((r = gd_pool_poll(rig->pool, WAIT_MS, 0)) >= 0)
		;
	assert_int_equal(r, -ECANCELED);
	assert_int_equal(rig->cancelled, 1);
	assert_string_equal(rig->failure.message, "interrupted");
	assert_int_equal(pool_rig_close(rig), 0);
}

/* Tasks end and begin while signals are being sent: no signal reaches the wrong task. */
static void test_a_late_signal_does_not_reach_the_next_task(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig, &ops);
	uint64_t last = 0;
	for (int i = 0; i < 3000; i++) {
		pool_rig_submit(rig, i % 50 == 49 ? SPIN : ANSWER, i % 3 == 0);
		last = rig->submitted - 1;
		if (i % 50 == 49) {
			assert_int_equal(gd_pool_cancel(rig->pool, last), 0);
			pool_rig_drain(rig);
		} else if (i % 3 == 0) {
			gd_pool_cancel(rig->pool, last);
		}
		gd_pool_poll(rig->pool, 0, 0);
	}
	pool_rig_drain(rig);
	assert_int_equal(rig->errors, 0); /* process() fails after a wrong call */
	assert_int_equal(rig->successes + rig->cancelled, 3000);
	check_worker_is_well(rig);
}

/* ---- Inside of a gd_*() function ---------------------------------------- */

static int fill(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	static char large[LARGE];
	struct model *m = state;
	struct rig_job job = pool_rig_job(&tasks[0]);
	m->interrupted = 0;
	if (num_tasks == 1 && job.what == ANSWER) {
		atomic_fetch_add(&board->begun, 1);
		board_pass_gate(0);
	}
	for (size_t i = 0; i < num_tasks; i++) {
		job = pool_rig_job(&tasks[i]);
		uint64_t answer = pool_rig_answer(job.number);
		if (job.what == FILL) {
			atomic_fetch_add(&board->notes[2], 1);
			gd_worker_batch_result(w, i, large, i == 2 ? sizeof(large) : LARGE - 4096);
			atomic_store(&board->words[i], (uint64_t)m->interrupted);
		} else {
			gd_worker_batch_result(w, i, &answer, sizeof(answer));
		}
	}
	return 0;
}

static bool waits_for_room(pid_t pid)
{
	char path[64], words[256] = "";
	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)pid);
	FILE *f = fopen(path, "r");
	if (f && !fgets(words, sizeof(words), f))
		words[0] = '\0';
	if (f)
		fclose(f);
	return strstr(words, "futex") != NULL;
}

/* How many times the process has waited: each signal ends a wait. */
static long waits(pid_t pid)
{
	char path[64], line[256];
	long count = -1;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "r");
	while (f && count < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	if (f)
		fclose(f);
	return count;
}

/* Neither interrupted nor killed: only the callbacks are slow. */
static void test_a_call_that_waits_for_room_is_finished(void **state)
{
	static const struct gd_worker_ops batches = {.size = sizeof(struct gd_worker_ops),
		.setup = load,
		.process_batch = fill,
		.max_batch = 4,
		.on_cancel = interrupt};
	struct pool_rig *rig = *state;
	rig->distrusted = 0;
	rig->calls.on_task_start = NULL;
	rig->options.grace_ms = 20;
	open_one(rig, &batches);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	pool_rig_submit(rig, ANSWER, 0);
	board_await(&board->begun, 1);
	for (int i = 0; i < 4; i++)
		pool_rig_submit(rig, FILL, 0);
	board_open_gate(0);
	board_await(&board->notes[2], 3);
	wait_until(waits_for_room(pid)); /* the third result does not fit, because there is no poll */
	long before = waits(pid);
	assert_int_equal(gd_pool_cancel(rig->pool, 3), 0);
	wait_until(waits(pid) >= before + 10); /* a signal every five milliseconds: the grace period has ended */
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 5); /* it was still answered */
	assert_int_equal(board->words[1], 0);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

/* ---- Without on_cancel -------------------------------------------------- */

static int look_at_signal(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	struct sigaction action;
	if (sigaction(SIGURG, NULL, &action) < 0 || action.sa_handler != SIG_DFL)
		return -EPROTO;
	return pool_rig_reply(w, &job);
}

static void test_the_signal_is_left_alone_without_on_cancel(void **state)
{
	static const struct gd_worker_ops plain = {.size = sizeof(struct gd_worker_ops), .process = look_at_signal};
	struct pool_rig *rig = *state;
	open_one(rig, &plain);
	pool_rig_submit(rig, 0, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(int argc, char **args)
{
	if (argc > 1 && strcmp(args[1], "--worker") == 0)
		return gd_worker_main(&ops);
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_task_out_of_time_is_interrupted_and_the_model_stays),
		pool_rig_test(test_a_cancelled_task_is_interrupted),
		pool_rig_test(test_the_second_stop_interrupts),
		pool_rig_test(test_a_late_signal_does_not_reach_the_next_task),
		pool_rig_test(test_a_call_that_waits_for_room_is_finished),
		pool_rig_test(test_the_signal_is_left_alone_without_on_cancel),
	};
	return cmocka_run_group_tests_name("pool on_cancel", tests, NULL, NULL);
}
