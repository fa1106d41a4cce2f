/* SPDX-License-Identifier: MIT */
/*
 * Calls, workers and processes at the worst moment: calls inside callbacks,
 * a worker that lies about its setup, a worker or a warden that is stopped.
 *
 * Each test runs in a host, because a failure is a crash or a hang. A host that does
 * not end in HOST_MS is killed, and so are the processes on the board.
 */
#include "outbox.h"
#include "pool_rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/board.h"
#include "support/host.h"
#include "support/process.h"
#include "support/wait.h"

#define HOST_MS    (WAIT_MS / 2) /* all tests together end within the time limit of the program, even if all hang */
#define LARGE_TASK ((size_t)3 << 20)

/* The PIDs on the board are valid: the host has added them, and board_check_all_gone() was not called yet. */
static void kill_what_is_left(void)
{
	for (int i = 0; i < atomic_load(&board->num_pids); i++) {
		pid_t pid = atomic_load(&board->pids[i]);
		if (process_alive(pid))
			kill(pid, SIGKILL);
	}
}

static int (*host_function)(void);

/* Without cmocka's signal handlers: a crash ends the host, not only the test. */
static int crash_on_fault(void)
{
	static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		signal(faults[i], SIG_DFL);
	return host_function();
}

static void run_host(int (*host)(void))
{
	int status;
	host_function = host;
	pid_t pid = host_start(crash_on_fault);
	bool ended = process_await_gone(pid, HOST_MS);
	if (!ended)
		kill(pid, SIGKILL);
	check_equal(waitpid(pid, &status, 0), pid);
	if (!ended || status != 0)
		kill_what_is_left();
	board_check_all_gone();
	if (!ended)
		check_failed(__FILE__, __LINE__, "the host does not end");
	check_equal(status, 0);
}

/* Ends the pool; the host has passed. */
static int end_host(struct pool_rig *rig)
{
	pool_rig_close(rig);
	pool_rig_free(rig);
	return 0;
}

static const struct gd_worker_ops reply_ops = {
	.size = sizeof(struct gd_worker_ops), .setup = pool_rig_note_setup, .process = pool_rig_just_reply};

/* ---- Cancelling --------------------------------------------------------- */

enum { GATE_SETUP, GATE_FIRST_TASK, RETRIED_TASKS = 5 };

static struct {
	struct pool_rig *rig;
	bool armed;
	int returned[2];
} canceller;

/* The message is read together with the ready record of the worker. */
static int send_in_setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	board_add_pid(getpid());
	if (!board_pass_gate(GATE_SETUP))
		_exit(93);
	int r = gd_worker_send(w, "hi", 2);
	atomic_fetch_add(&board->setups, 1);
	return r;
}

/* The first task keeps the worker busy until all others are in its inbox: they become one batch. */
static int die_with_the_first_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	if (pool_rig_job(&tasks[0]).number > 0 && gd_worker_attempt(w, 0) == 1)
		_exit(1);
	atomic_fetch_add(&board->begun, 1);
	if (pool_rig_job(&tasks[0]).number == 0 && !board_pass_gate(GATE_FIRST_TASK))
		_exit(93);
	for (size_t i = 0; i < num_tasks; i++) {
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		int r = gd_worker_batch_result(w, i, &answer, sizeof(answer));
		if (r < 0)
			return r;
	}
	return 0;
}

static int cancel_two(void *context, const struct gd_event *event)
{
	(void)context;
	(void)event;
	if (!canceller.armed)
		return 0;
	canceller.armed = false;
	canceller.returned[0] = gd_pool_cancel(canceller.rig->pool, 3);
	canceller.returned[1] = gd_pool_cancel(canceller.rig->pool, 4);
	return 0;
}

/* The first worker is dead, and the next one is in its setup. */
static bool tasks_wait_for_a_retry(struct pool_rig *rig)
{
	struct gd_stats stats;
	gd_pool_stats(rig->pool, &stats, sizeof(stats));
	return stats.retries == RETRIED_TASKS && atomic_load(&board->num_pids) == 2;
}

static bool first_task_has_begun(struct pool_rig *rig)
{
	(void)rig;
	return atomic_load(&board->begun) == 1;
}

static bool inbox_has_all_tasks(struct pool_rig *rig)
{
	struct gd_worker_stats worker;
	check_equal(gd_pool_worker_stats(rig->pool, 0, &worker, sizeof(worker)), 0);
	return worker.queued == RETRIED_TASKS;
}

static int cancel_during_the_second_hand_out(void)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = send_in_setup,
		.process_batch = die_with_the_first_batch,
		.max_batch = 8};
	struct pool_rig *rig = canceller.rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	rig->options.retries = 1;
	rig->calls.on_message = cancel_two;
	pool_rig_open(rig, &ops);
	board_open_gate(GATE_SETUP);
	pool_rig_submit_many(rig, 1);
	pool_rig_await(rig, first_task_has_begun);
	pool_rig_submit_many(rig, RETRIED_TASKS);
	pool_rig_await(rig, inbox_has_all_tasks);
	board_open_gate(GATE_FIRST_TASK);
	pool_rig_await(rig, tasks_wait_for_a_retry);

	canceller.armed = true;
	canceller.returned[0] = canceller.returned[1] = 1;
	board_open_gate(GATE_SETUP);
	board_await(&board->setups, 2);
	process_await_asleep(atomic_load(&board->pids[1]));
	pool_rig_drain(rig);
	check_equal(canceller.returned[0], 0);
	check_equal(canceller.returned[1], 0);
	/* A task that ends meanwhile keeps its own result. */
	check_equal(rig->successes + rig->cancelled, 1 + RETRIED_TASKS);
	return end_host(rig);
}

static void test_cancelling_retried_tasks_in_a_callback_of_their_hand_out_is_safe(void **state)
{
	(void)state;
	run_host(cancel_during_the_second_hand_out);
}

static int cancel_twice(void)
{
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &reply_ops);
	pool_rig_submit(rig, 0, 0);
	check_equal(gd_pool_cancel(rig->pool, 0), 0);
	check_equal(gd_pool_cancel(rig->pool, 0), 0);
	pool_rig_drain(rig);
	check_equal(rig->cancelled, 1);
	return end_host(rig);
}

static void test_cancelling_twice_before_the_callback_returns_zero_twice(void **state)
{
	(void)state;
	run_host(cancel_twice);
}

static int cancel_large_task_of_a_stopped_worker(void)
{
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 100;
	pool_rig_open(rig, &reply_ops);
	pid_t pid = pool_rig_pid(rig, 0, 0);
	check_equal(kill(pid, SIGSTOP), 0);
	pool_rig_submit_sized(rig, 0, LARGE_TASK);
	check_equal(gd_pool_cancel(rig->pool, 0), 0);
	pool_rig_drain(rig);
	check_equal(rig->cancelled, 1);
	check_true(process_await_gone(pid, WAIT_MS));
	return end_host(rig);
}

static void test_cancelled_large_task_of_a_stopped_worker_ends_after_the_grace_period(void **state)
{
	(void)state;
	run_host(cancel_large_task_of_a_stopped_worker);
}

/* ---- A generator that does not wait ------------------------------------- */

enum { NOWAIT_QUEUE = 4, NOWAIT_TASKS = 1000 };

static struct {
	pthread_t thread;
	atomic_int elsewhere; /* callbacks on another thread than the run's */
	bool reserve;
} nowait;

/* No task ends before the generator has been called with a full queue. */
static int reply_when_the_queue_was_full(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	board_await(&board->begun, NOWAIT_QUEUE + 1);
	return pool_rig_just_reply(w, state, task);
}

static int generate_nowait(void *context, struct gd_feed *feed)
{
	static const struct gd_task_options options = {.size = sizeof(options), .nowait = 1};
	struct pool_rig *rig = context;
	if (rig->submitted == NOWAIT_TASKS)
		return 0;
	const struct rig_job job = {.number = rig->submitted++};
	atomic_fetch_add(&board->begun, 1);
	if (!nowait.reserve)
		return gd_feed_emit(feed, &job, sizeof(job), NULL, &options);
	void *data = gd_feed_reserve(feed, sizeof(job), NULL, &options);
	if (!data)
		return -ENOMEM;
	memcpy(data, &job, sizeof(job));
	return 1;
}

static void note_thread(struct pool_rig *rig, const struct gd_event *event)
{
	(void)rig;
	(void)event;
	if (!pthread_equal(pthread_self(), nowait.thread))
		atomic_fetch_add(&nowait.elsewhere, 1);
}

static int run_with_nowait(void)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = reply_when_the_queue_was_full};
	struct pool_rig *rig = pool_rig_new();
	struct gd_run run = {.size = sizeof(run), .generator = generate_nowait, .generator_context = rig};
	struct gd_dispatcher *dispatcher;
	struct gd_error err = {0};
	nowait.thread = pthread_self();
	rig->on_end = note_thread;
	rig->options.worker = &ops;
	rig->options.queue_size = NOWAIT_QUEUE;
	pool_rig_reserve(rig, NOWAIT_TASKS);
	check_equal(gd_dispatcher_create(&rig->options, &dispatcher, &err), 0);
	if (gd_dispatcher_run(dispatcher, &run, &rig->calls, &err) != 0)
		check_failed(__FILE__, __LINE__, err.message);
	gd_dispatcher_destroy(dispatcher);
	check_equal(atomic_load(&nowait.elsewhere), 0);
	check_equal(rig->successes, NOWAIT_TASKS);
	pool_rig_check_books(rig);
	pool_rig_free(rig);
	return 0;
}

static int run_with_nowait_reserve(void)
{
	nowait.reserve = true;
	return run_with_nowait();
}

static void test_emit_with_nowait_leaves_the_callbacks_on_the_thread_of_the_run(void **state)
{
	(void)state;
	run_host(run_with_nowait);
}

static void test_reserve_with_nowait_leaves_the_callbacks_on_the_thread_of_the_run(void **state)
{
	(void)state;
	run_host(run_with_nowait_reserve);
}

/* ---- A worker that lies ------------------------------------------------- */

static int claim_to_be_ready_and_hang(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	board_add_pid(getpid());
	/* Written but never published, so it is never read. */
	outbox_descs(outbox_find())->kind = RING_READY;
	process_hang();
}

static struct pool_rig *open_with_a_liar(void)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = claim_to_be_ready_and_hang,
		.process = pool_rig_just_reply};
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 50;
	rig->options.setup_timeout_ms = 200;
	pool_rig_open(rig, &ops);
	board_await(&board->num_pids, 1);
	return rig;
}

static int await_the_setup_timeout(void)
{
	struct pool_rig *rig = open_with_a_liar();
	pool_rig_await(rig, pool_rig_has_setup_failure);
	check_equal(rig->setup_failure.event.failure, GD_FAILURE_TIMED_OUT);
	check_true(process_await_gone(atomic_load(&board->pids[0]), WAIT_MS));
	return end_host(rig);
}

static int close_at_once(void)
{
	return end_host(open_with_a_liar());
}

static void test_false_claim_to_be_ready_does_not_avert_the_setup_timeout(void **state)
{
	(void)state;
	run_host(await_the_setup_timeout);
}

static void test_false_claim_to_be_ready_does_not_hang_the_close(void **state)
{
	(void)state;
	run_host(close_at_once);
}

/* ---- A stopped warden --------------------------------------------------- */

static int close_with_a_stopped_warden(void)
{
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	rig->options.cleanup_timeout_ms = 200;
	rig->options.grace_ms = 100;
	rig->options.kill_wait_ms = 200;
	pool_rig_open(rig, &reply_ops);
	pid_t warden = process_parent(pool_rig_pid(rig, 0, 0));
	board_add_pid(warden);
	check_equal(kill(warden, SIGSTOP), 0);
	end_host(rig);
	/* A warden that was left stopped ends with its workers when it continues. */
	if (process_alive(warden))
		kill(warden, SIGCONT);
	return 0;
}

static void test_stopped_warden_does_not_hang_the_close(void **state)
{
	(void)state;
	run_host(close_with_a_stopped_warden);
}

/* ---- Announced starts --------------------------------------------------- */

enum { GATE_LIE = 1 };

/* In its first task, it announces the start of the next one, which is in its inbox. Its replacement answers. */
static int announce_the_next(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	if (atomic_fetch_add(&board->begun, 1) == 0) {
		if (!board_pass_gate(GATE_LIE))
			_exit(94);
		outbox_publish(
			outbox_find(), (struct ring_desc){.kind = RING_STARTED, .id = gd_worker_task_id(w, 0) + 1});
		process_hang();
	}
	for (size_t i = 0; i < num_tasks; i++) {
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		gd_worker_batch_result(w, i, &answer, sizeof(answer));
	}
	return 0;
}

static int host_with_false_beginnings(void)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = pool_rig_note_setup,
		.process_batch = announce_the_next,
		.max_batch = 8};
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	check_equal(gd_pool_wait_ready(rig->pool, WAIT_MS), 1);
	pool_rig_submit(rig, 0, 0);
	board_await(&board->begun, 1);
	pool_rig_submit(rig, 0, 0);
	board_open_gate(GATE_LIE);
	while (gd_pool_outstanding(rig->pool) > 0)
		check_true(gd_pool_poll(rig->pool, 10, 0) >= 0); /* the lie does not wake the pool */
	check_equal(rig->by_failure[GD_FAILURE_CRASHED], 1);
	check_true(strstr(rig->failure.message, "it reported the start of a task that has not begun") != NULL);
	check_equal(rig->successes, 1);
	check_equal(rig->starts, 2);
	return end_host(rig);
}

static void test_worker_that_announces_a_task_it_has_not_begun_is_killed(void **state)
{
	(void)state;
	run_host(host_with_false_beginnings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_cancelling_retried_tasks_in_a_callback_of_their_hand_out_is_safe),
		pool_rig_test(test_cancelling_twice_before_the_callback_returns_zero_twice),
		pool_rig_test(test_cancelled_large_task_of_a_stopped_worker_ends_after_the_grace_period),
		pool_rig_test(test_emit_with_nowait_leaves_the_callbacks_on_the_thread_of_the_run),
		pool_rig_test(test_reserve_with_nowait_leaves_the_callbacks_on_the_thread_of_the_run),
		pool_rig_test(test_false_claim_to_be_ready_does_not_avert_the_setup_timeout),
		pool_rig_test(test_false_claim_to_be_ready_does_not_hang_the_close),
		pool_rig_test(test_stopped_warden_does_not_hang_the_close),
		pool_rig_test(test_worker_that_announces_a_task_it_has_not_begun_is_killed),
	};
	return cmocka_run_group_tests_name("pool attacks", tests, NULL, NULL);
}
