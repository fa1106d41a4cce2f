/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/pidref.h"

#define LONG_NS (20 * NS_PER_S)

static pid_t start_waiting(void)
{
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	assert_true(pid > 0);
	return pid;
}

static int reap(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void test_a_process_is_signalled_and_its_end_is_seen(void **state)
{
	(void)state;
	struct pidref p = PIDREF_NONE;
	pid_t pid = start_waiting();
	assert_int_equal(pidref_open(pid, &p), 0);
	assert_true(pidref_is_set(&p));
	assert_int_equal(p.pid, pid);
	assert_true(p.fd > STDERR_FILENO);
	assert_true(fcntl(p.fd, F_GETFD) & FD_CLOEXEC);
	assert_false(pidref_wait(&p, clock_now_ns()));
	assert_int_equal(pidref_signal(&p, SIGTERM), 0);
	assert_true(pidref_wait(&p, clock_now_ns() + LONG_NS));
	assert_int_equal(reap(pid), SIGTERM);

	/* Its number may be another's from now on; the descriptor is not. */
	assert_int_equal(pidref_signal(&p, SIGKILL), -ESRCH);
	pidref_close(&p);
	assert_false(pidref_is_set(&p));
	assert_int_equal(p.fd, -1);
	assert_int_equal(pidref_signal(&p, SIGKILL), -ESRCH);
	pidref_close(&p);
}

static void test_without_a_descriptor_signals_go_by_number(void **state)
{
	(void)state;
	struct pidref p = {.pid = start_waiting(), .fd = -1};
	assert_false(pidref_wait(&p, clock_now_ns() + LONG_NS));
	assert_int_equal(pidref_signal(&p, SIGKILL), 0);
	assert_int_equal(reap(p.pid), SIGKILL);
}

static void test_no_process_leaves_the_reference_as_it_was(void **state)
{
	(void)state;
	struct pidref p = PIDREF_NONE;
	pid_t pid = start_waiting();
	assert_int_equal(kill(pid, SIGKILL), 0);
	reap(pid);
	assert_int_equal(pidref_open(pid, &p), -ESRCH);
	assert_int_equal(p.pid, 0);
	assert_int_equal(p.fd, -1);
}

static volatile sig_atomic_t received;

static void receive(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	received = info->si_code == SI_QUEUE ? info->si_value.sival_int : -1;
}

static void test_a_queued_signal_carries_its_value(void **state)
{
	(void)state;
	struct pidref self = PIDREF_NONE;
	const struct sigaction action = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO};
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pidref_open(getpid(), &self), 0);
	assert_int_equal(pidref_queue(&self, SIGUSR1, (union sigval){.sival_int = 4711}), 0);
	assert_int_equal(received, 4711);
	pidref_close(&self);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process_is_signalled_and_its_end_is_seen),
		cmocka_unit_test(test_without_a_descriptor_signals_go_by_number),
		cmocka_unit_test(test_no_process_leaves_the_reference_as_it_was),
		cmocka_unit_test(test_a_queued_signal_carries_its_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
