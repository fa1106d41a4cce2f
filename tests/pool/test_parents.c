/* SPDX-License-Identifier: MIT */
/*
 * Processes above the workers: a host program that is killed or interrupted, and a warden that is killed. And processes
 * below: the workers' own children.
 */
#include "pool_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/board.h"
#include "support/host.h"
#include "support/process.h"
#include "support/wait.h"

enum deed {
	ANSWER,
	HOLD, /* until killed */
	UNTIL_GO,
	CHILD,   /* a child that survives */
	SESSION, /* in its own session */
	DAEMON,  /* and forked twice */
	TREE,    /* a daemon with children */
};

/* One or three processes that survive; they are on the board before this returns. */
static void spawn(enum deed what, atomic_int *there)
{
	int wanted = atomic_load(there) + (what == TREE ? 3 : 1);
	pid_t pid = fork();
	if (pid < 0)
		_exit(94);
	if (pid == 0) {
		if (what != CHILD)
			setsid();
		if (what == DAEMON || what == TREE) {
			pid_t second = fork();
			if (second != 0)
				_exit(second < 0);
		}
		if (what == TREE && fork() == 0)
			fork();
		board_add_pid(getpid());
		atomic_fetch_add(there, 1);
		process_hang();
	}
	if (what == DAEMON || what == TREE)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	while (atomic_load(there) < wanted)
		poll(NULL, 0, 1);
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->begun, 1);
	if (job.what == HOLD)
		process_hang();
	while (job.what == UNTIL_GO && !atomic_load(&board->go) && !gd_worker_cancelled(w, 0))
		poll(NULL, 0, 1);
	if (job.what >= CHILD)
		spawn((enum deed)job.what, &board->notes[8 + gd_worker_slot(w)]);
	return pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process = process,
	.cleanup = pool_rig_note_cleanup};

/* The host's pool, busy in every worker; the warden's PID is on the board. */
static struct pool_rig *host_pool(uint32_t what)
{
	struct pool_rig *rig = pool_rig_new();
	pool_rig_open(rig, &ops);
	for (int slot = 0; slot < 2; slot++)
		pool_rig_pid(rig, slot, 0);
	atomic_store(&board->notes[0], process_parent(pool_rig_pid(rig, 0, 0)));
	pool_rig_submit(rig, what, 0);
	pool_rig_submit(rig, what, 0);
	pool_rig_submit_many(rig, 10);
	board_await(&board->begun, 2);
	return rig;
}

static int host_held(void)
{
	struct pool_rig *rig = host_pool(HOLD);
	atomic_store(&board->notes[1], 1);
	pool_rig_drain(rig);
	return 0;
}

/* Starts a host that sets note 1 when everything is running, and waits for that. */
static pid_t start_and_await(int (*host)(void))
{
	pid_t pid = host_start(host);
	board_await(&board->notes[1], 1);
	return pid;
}

/* ---- The parent --------------------------------------------------------- */

static void kill_and_check_all_gone(pid_t host)
{
	process_kill(host);
	board_check_all_gone();
	waitpid(host, NULL, 0);
}

static void test_parent_killed_leaves_no_process(void **state)
{
	(void)state;
	pid_t host = start_and_await(host_held);
	pid_t warden = atomic_load(&board->notes[0]);
	check_true(process_alive(warden) && process_alive(atomic_load(&board->pids[0])));
	board_add_pid(warden);
	kill_and_check_all_gone(host);
}

static int host_with_daemons(void)
{
	struct pool_rig *rig = host_pool(TREE);
	pool_rig_drain(rig);
	pool_rig_submit(rig, HOLD, 0);
	board_await(&board->begun, 13);
	atomic_store(&board->notes[1], 1);
	pool_rig_drain(rig);
	return 0;
}

static void test_parent_killed_leaves_no_daemon_of_a_worker(void **state)
{
	(void)state;
	pid_t host = start_and_await(host_with_daemons);
	assert_int_equal(atomic_load(&board->num_pids), 8);
	kill_and_check_all_gone(host);
}

static int host_that_leaves(void)
{
	host_pool(HOLD);
	return 0;
}

static void test_parent_that_exits_without_closing_leaves_no_process(void **state)
{
	(void)state;
	host_run(host_that_leaves);
	board_add_pid(atomic_load(&board->notes[0]));
	board_check_all_gone();
}

/* Only the kernel is left to end the workers. */
static void test_parent_and_warden_killed_at_once_leave_no_process(void **state)
{
	(void)state;
	pid_t host = start_and_await(host_held);
	check_true(kill(host, SIGSTOP) == 0);
	process_kill(atomic_load(&board->notes[0]));
	kill_and_check_all_gone(host);
}

/* ---- SIGINT ------------------------------------------------------------- */

enum { NOTE_GIVEN = 3, NOTE_CANCELLED };

static struct gd_dispatcher *interrupted;

static void stop_on_signal(int sig)
{
	(void)sig;
	gd_dispatcher_stop(interrupted);
}

static int generate(void *context, struct gd_feed *feed)
{
	struct pool_rig *rig = context;
	struct rig_job job = {.what = UNTIL_GO, .number = rig->submitted};
	int r = gd_feed_emit(feed, &job, sizeof(job), NULL, NULL);
	if (r < 0)
		return r;
	rig->submitted++;
	atomic_fetch_add(&board->notes[NOTE_GIVEN], 1);
	return 1;
}

static void note_cancelled(struct pool_rig *rig, const struct gd_event *event)
{
	(void)rig;
	if (event->failure == GD_FAILURE_CANCELLED)
		atomic_fetch_add(&board->notes[NOTE_CANCELLED], 1);
}

static int run_until_interrupted(struct pool_rig *rig, struct gd_error *err)
{
	rig->options.worker = &ops;
	rig->on_end = note_cancelled;
	pool_rig_reserve(rig, 10000);
	check_true(gd_dispatcher_create(&rig->options, &interrupted, err) == 0);
	const struct sigaction action = {.sa_handler = stop_on_signal};
	check_true(sigaction(SIGINT, &action, NULL) == 0);
	struct gd_run run = {.size = sizeof(run), .generator = generate, .generator_context = rig};
	int r = gd_dispatcher_run(interrupted, &run, &rig->calls, err);
	gd_dispatcher_stats(interrupted, &rig->close_stats, sizeof(rig->close_stats));
	gd_dispatcher_destroy(interrupted);
	return r;
}

/* Like a job of a shell: its own process group, which gets the terminal's Ctrl-C. */
static int host_that_stops(void)
{
	struct gd_error err = {0};
	struct pool_rig *rig = pool_rig_new();
	check_true(setpgid(0, 0) == 0);
	rig->options.grace_ms = 20000; /* no worker needs to be killed */
	check_equal(run_until_interrupted(rig, &err), -ECANCELED);
	pool_rig_check_books(rig);
	check_equal(rig->exits, 1);
	check_equal(atomic_load(&board->cleanups), 2);
	check_equal(rig->by_failure[GD_FAILURE_CRASHED], 0);
	check_true(rig->by_failure[GD_FAILURE_CANCELLED] > 0);
	atomic_store(&board->notes[2], (int)rig->successes);
	return 0;
}

/* Starts a host, interrupts it and waits until it has cancelled tasks that had not begun. Running tasks continue. */
static pid_t start_and_interrupt(void)
{
	pid_t host = host_start(host_that_stops);
	board_await(&board->begun, 2);
	board_await(&board->notes[NOTE_GIVEN], 3);
	check_true(kill(-host, SIGINT) == 0);
	board_await(&board->notes[NOTE_CANCELLED], 1);
	assert_true(process_alive(host));
	return host;
}

static void test_sigint_once_finishes_what_runs(void **state)
{
	(void)state;
	pid_t host = start_and_interrupt();
	atomic_store(&board->go, 1);
	host_check(host);
	assert_int_equal(atomic_load(&board->notes[2]), 2);
	board_check_all_gone();
}

static void test_sigint_twice_cancels_what_runs(void **state)
{
	(void)state;
	pid_t host = start_and_interrupt();
	check_true(kill(-host, SIGINT) == 0);
	host_check(host);
	board_check_all_gone();
}

static int host_in_own_group(void)
{
	check_true(setpgid(0, 0) == 0);
	signal(SIGINT, SIG_DFL);
	return host_held();
}

static void test_sigint_that_kills_the_host_leaves_no_process(void **state)
{
	(void)state;
	int status;
	pid_t host = start_and_await(host_in_own_group);
	check_true(kill(-host, SIGINT) == 0);
	board_add_pid(atomic_load(&board->notes[0]));
	board_check_all_gone();
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

/* ---- The warden --------------------------------------------------------- */

static void test_warden_killed_ends_every_task_and_worker(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 1, 0);
	pid_t warden = process_parent(pool_rig_pid(rig, 0, 0));
	pool_rig_submit(rig, HOLD, 0);
	pool_rig_submit(rig, HOLD, 0);
	board_await(&board->begun, 2);
	pool_rig_submit_many(rig, 100);
	process_kill(warden);
	pool_rig_drain(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CRASHED], 2);
	assert_int_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 100);
	assert_int_equal(gd_pool_poll(rig->pool, 1000, 0), -ENODEV);
	assert_int_equal(gd_pool_submit(rig->pool, "x", 1, NULL, NULL, NULL), -ENODEV);
	assert_int_equal(pool_rig_close(rig), 0);
	board_check_all_gone();
}

static void test_warden_killed_while_idle_makes_poll_return_enodev(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 1, 0);
	process_kill(process_parent(pool_rig_pid(rig, 0, 0)));
	struct pollfd p = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), -ENODEV);
	assert_int_equal(pool_rig_close(rig), 0);
	board_check_all_gone();
}

static void test_close_right_after_the_warden_was_killed_ends_every_task(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pid_t warden = process_parent(pool_rig_pid(rig, 0, 0));
	pool_rig_submit(rig, HOLD, 0);
	board_await(&board->begun, 1);
	process_kill(warden);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->errors, 1);
	board_check_all_gone();
}

/* ---- The workers' own children ------------------------------------------ */

static void test_children_of_a_worker_end_with_it(void **state)
{
	static const enum deed kinds[] = {CHILD, SESSION, DAEMON, TREE};
	for (size_t i = 0; i < 4; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		rig->options.gpus = "sim:1";
		pool_rig_open(rig, &ops);
		pool_rig_submit(rig, kinds[i], 0);
		pool_rig_drain(rig);
		pid_t worker = pool_rig_pid(rig, 0, 0);
		int pids = atomic_load(&board->num_pids);
		assert_int_equal(pids, kinds[i] == TREE ? 4 : 2);
		for (int n = 0; n < pids; n++)
			assert_true(process_alive(atomic_load(&board->pids[n])));
		process_kill(worker);
		for (int n = 0; n < pids; n++)
			assert_true(process_await_gone(atomic_load(&board->pids[n]), WAIT_MS));
		pool_rig_pid(rig, 0, worker);
		assert_int_equal(pool_rig_close(rig), 0);
	}
}

static void test_children_of_a_worker_end_with_the_pool(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	for (uint32_t what = CHILD; what <= TREE; what++) {
		pool_rig_submit(rig, what, 0);
		pool_rig_drain(rig);
	}
	assert_int_equal(pool_rig_close(rig), 0);
	/* Not a moment later: gd_pool_close() has waited for them. */
	for (int i = 0; i < atomic_load(&board->num_pids); i++)
		assert_false(process_alive(atomic_load(&board->pids[i])));
}

static void test_daemons_of_a_worker_survive_the_death_of_another(void **state)
{
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pid_t workers[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
	assert_int_equal(atomic_load(&board->num_pids), 2);
	pool_rig_submit(rig, TREE, 0);
	pool_rig_drain(rig);
	pool_rig_submit(rig, SESSION, 0);
	pool_rig_drain(rig);
	uint64_t by_first = pool_rig_worker(rig, 0).completed;
	assert_true(by_first == 2 || by_first == 0);
	int parent = by_first ? 0 : 1;
	process_kill(workers[!parent]);
	pool_rig_pid(rig, !parent, workers[!parent]);
	for (int i = 2; i < 6; i++)
		assert_true(process_alive(atomic_load(&board->pids[i])));
	process_kill(workers[parent]);
	for (int i = 2; i < 6; i++)
		assert_true(process_await_gone(atomic_load(&board->pids[i]), WAIT_MS));
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_parent_killed_leaves_no_process),
		pool_rig_test(test_parent_killed_leaves_no_daemon_of_a_worker),
		pool_rig_test(test_parent_and_warden_killed_at_once_leave_no_process),
		pool_rig_test(test_parent_that_exits_without_closing_leaves_no_process),
		pool_rig_test(test_sigint_once_finishes_what_runs),
		pool_rig_test(test_sigint_twice_cancels_what_runs),
		pool_rig_test(test_sigint_that_kills_the_host_leaves_no_process),
		pool_rig_test(test_warden_killed_ends_every_task_and_worker),
		pool_rig_test(test_warden_killed_while_idle_makes_poll_return_enodev),
		pool_rig_test(test_close_right_after_the_warden_was_killed_ends_every_task),
		pool_rig_test(test_children_of_a_worker_end_with_it),
		pool_rig_test(test_children_of_a_worker_end_with_the_pool),
		pool_rig_test(test_daemons_of_a_worker_survive_the_death_of_another),
	};
	return cmocka_run_group_tests_name("pool parents", tests, NULL, NULL);
}
