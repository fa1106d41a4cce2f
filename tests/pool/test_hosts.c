/* SPDX-License-Identifier: MIT */
/* Hosts that handle children and threads in their own way: worker faults are handled as usual. */
#include "pool_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/board.h"
#include "support/host.h"
#include "support/process.h"
#include "support/wait.h"

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process = pool_rig_reply_or_hold,
	.cleanup = pool_rig_note_cleanup};

/* ---- Hosts with their own handling of children -------------------------- */

static void run_faults(struct pool_rig *rig)
{
	pool_rig_open(rig, &ops);
	const pid_t pids[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
	pool_rig_submit(rig, RIG_JOB_HOLD, 0);
	board_await(&board->begun, 1);
	int busy = pool_rig_worker(rig, 0).has_task ? 0 : 1;
	pool_rig_submit_many(rig, 50);
	process_kill(pids[busy]);
	pool_rig_drain(rig);
	pool_rig_pid(rig, busy, pids[busy]);
	check_equal(rig->successes, 50);
	check_equal(rig->by_failure[GD_FAILURE_CRASHED], 1);
	check_equal(rig->failure.event.signal, SIGKILL);
	check_equal(pool_rig_close(rig), 0);
	check_equal(rig->close_stats.restarts, 1);
	check_equal(atomic_load(&board->cleanups), 2);
	board_check_all_gone();
}

static int host_ignoring(void)
{
	signal(SIGCHLD, SIG_IGN);
	run_faults(pool_rig_new());
	struct sigaction now;
	sigaction(SIGCHLD, NULL, &now);
	check_true(now.sa_handler == SIG_IGN);
	return 0;
}

static void test_pool_works_in_a_host_that_ignores_sigchld(void **state)
{
	(void)state;
	host_run(host_ignoring);
}

static void reap_everybody(int sig)
{
	(void)sig;
	int saved = errno;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		atomic_fetch_add(&board->notes[3], 1);
	errno = saved;
}

static int host_reaping_in_handler(void)
{
	const struct sigaction action = {.sa_handler = reap_everybody};
	sigaction(SIGCHLD, &action, NULL);
	run_faults(pool_rig_new());
	return 0;
}

static void test_pool_works_in_a_host_whose_sigchld_handler_reaps_everything(void **state)
{
	(void)state;
	host_run(host_reaping_in_handler);
	/* The host reaped the warden before the library could; otherwise the test would not apply. */
	assert_int_equal(atomic_load(&board->notes[3]), 1);
}

static void *reap_in_thread(void *argument)
{
	pid_t own = *(pid_t *)argument;
	for (pid_t pid; (pid = wait(NULL)) != own;)
		if (pid > 0)
			atomic_fetch_add(&board->notes[3], 1);
	return NULL;
}

static int host_reaping_in_thread(void)
{
	pthread_t thread;
	struct pool_rig *rig = pool_rig_new();
	rig->options.allow_threads = true;
	/* One child of the host, so that wait() always has a child to wait for. */
	int ends[2];
	char byte;
	check_true(pipe(ends) == 0);
	pid_t own = fork();
	if (own == 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	fcntl(ends[1], F_SETFD, FD_CLOEXEC);
	check_true(pthread_create(&thread, NULL, reap_in_thread, &own) == 0);
	run_faults(rig);
	close(ends[1]);
	pthread_join(thread, NULL);
	return 0;
}

static void test_pool_works_in_a_host_whose_thread_reaps_everything(void **state)
{
	(void)state;
	host_run(host_reaping_in_thread);
}

static int host_with_child_of_its_own(void)
{
	pid_t own = fork();
	if (own == 0)
		_exit(7);
	check_true(process_await_gone(own, WAIT_MS));
	run_faults(pool_rig_new());
	int status;
	check_true(waitpid(own, &status, 0) == own && WEXITSTATUS(status) == 7);
	check_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
	return 0;
}

static void test_children_of_the_host_are_left_to_it(void **state)
{
	(void)state;
	host_run(host_with_child_of_its_own);
}

/* ---- Threads ------------------------------------------------------------ */

/* The pool that the thread has opened works, and replaces a worker, after the thread has ended. */
static void run_after(struct pool_rig *rig, void *(*open)(void *rig))
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, open, rig), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pool_rig_pid(rig, 0, 0);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	pool_rig_replace_worker(rig, 0);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->successes, 200);
}

static void *open_in_thread(void *argument)
{
	pool_rig_open(argument, &ops);
	return NULL;
}

static void test_pool_outlives_the_thread_that_opened_it(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.allow_threads = true;
	run_after(rig, open_in_thread);
	assert_int_equal(rig->close_stats.restarts, 1);
	board_check_all_gone();
}

/* The same with workers that are executed: this program is its own worker. */
static void *open_executed_in_thread(void *argument)
{
	static const char *const argv[] = {"/proc/self/exe", NULL};
	struct pool_rig *rig = argument;
	rig->options.worker_argv = argv;
	rig->options.allow_threads = false;
	pool_rig_open(rig, NULL);
	return NULL;
}

static void test_pool_of_executed_workers_outlives_the_thread_that_opened_it(void **state)
{
	struct pool_rig *rig = *state;
	run_after(rig, open_executed_in_thread);
}

int main(void)
{
	static const struct gd_worker_ops executed = {
		.size = sizeof(struct gd_worker_ops), .process = pool_rig_just_reply};
	if (getenv("GD_WORKER"))
		return gd_worker_main(&executed);
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_pool_works_in_a_host_that_ignores_sigchld),
		pool_rig_test(test_pool_works_in_a_host_whose_sigchld_handler_reaps_everything),
		pool_rig_test(test_pool_works_in_a_host_whose_thread_reaps_everything),
		pool_rig_test(test_children_of_the_host_are_left_to_it),
		pool_rig_test(test_pool_outlives_the_thread_that_opened_it),
		pool_rig_test(test_pool_of_executed_workers_outlives_the_thread_that_opened_it),
	};
	return cmocka_run_group_tests_name("pool hosts", tests, NULL, NULL);
}
