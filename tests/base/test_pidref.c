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
#include "support/host.h"
#include "support/missing_calls.h"

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

static void test_a_process_is_signaled_and_its_end_is_seen(void **state)
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

	/* Its PID may be reused from now on; the descriptor is not. */
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
	assert_false(pidref_wait(&p, clock_now_ns()));
	assert_int_equal(pidref_signal(&p, SIGKILL), 0);
	assert_true(pidref_wait(&p, clock_now_ns() + LONG_NS));
	assert_int_equal(reap(p.pid), SIGKILL);
	assert_true(pidref_wait(&p, clock_now_ns()));
}

/* Even of another process's child, which remains a zombie. */
static void test_without_a_descriptor_the_end_of_any_process_is_seen(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		pid_t child = start_waiting();
		_exit(write(ends[1], &child, sizeof(child)) == sizeof(child) && pause() ? 0 : 1);
	}
	struct pidref p = {.fd = -1};
	assert_int_equal(read(ends[0], &p.pid, sizeof(p.pid)), sizeof(p.pid));
	assert_false(pidref_wait(&p, clock_now_ns()));
	assert_int_equal(pidref_signal(&p, SIGKILL), 0);
	assert_true(pidref_wait(&p, clock_now_ns() + LONG_NS));
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(reap(parent), SIGKILL);
	close(ends[0]);
	close(ends[1]);
}

static void test_poll_sees_the_end_and_other_descriptors(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	for (int with_fd = 0; with_fd < 2; with_fd++) {
		struct pidref p = {.pid = start_waiting(), .fd = -1};
		if (with_fd)
			assert_int_equal(pidref_open(p.pid, &p), 0);
		struct pollfd fds[] = {{.fd = ends[0], .events = POLLIN}, {.fd = p.fd, .events = POLLIN}};
		assert_int_equal(pidref_poll(&p, fds, 2, &fds[1], 0), 0);
		assert_int_equal(pidref_poll(&p, fds, 2, &fds[1], 30), 0);
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_int_equal(pidref_poll(&p, fds, 2, &fds[1], -1), 1);
		assert_int_equal(fds[0].revents, POLLIN);
		assert_int_equal(fds[1].revents, 0);
		assert_int_equal(kill(p.pid, SIGKILL), 0);
		assert_true(pidref_wait(&p, clock_now_ns() + LONG_NS));
		assert_int_equal(pidref_poll(&p, fds, 2, &fds[1], -1), 2);
		assert_true(fds[0].revents && fds[1].revents);
		char byte;
		assert_int_equal(read(ends[0], &byte, 1), 1);
		assert_int_equal(pidref_poll(&p, fds, 2, &fds[1], -1), 1);
		assert_true(!fds[0].revents && fds[1].revents);
		reap(p.pid);
		pidref_close(&p);
	}
	close(ends[0]);
	close(ends[1]);
}

/* Returns 0, or the number of the failed check. */
static int check_without_calls(void)
{
	struct pidref p = PIDREF_NONE, self = PIDREF_NONE;
	if (missing_calls_forbid("pidfd_open") < 0)
		return 1;
	pid_t pid = start_waiting();
	if (pidref_open(pid, &p) < 0 || p.pid != pid || p.fd >= 0)
		return 2;
	if (pidref_signal(&p, SIGKILL) < 0 || !pidref_wait(&p, clock_now_ns() + LONG_NS))
		return 3;
	reap(pid);
	if (pidref_open(pid, &p) != -ESRCH)
		return 4;
	if (pidref_open(getpid(), &self) < 0)
		return 5;
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (pidref_queue(&self, SIGUSR1, (union sigval){.sival_int = 4711}) < 0)
		return 6;
	siginfo_t info;
	return sigwaitinfo(&usr1, &info) == SIGUSR1 && info.si_value.sival_int == 4711 ? 0 : 7;
}

static void test_a_kernel_without_descriptors_for_processes_does_the_same_by_number(void **state)
{
	(void)state;
	host_run(check_without_calls);
}

static int check_without_signals(void)
{
	struct pidref p = PIDREF_NONE;
	pid_t pid = start_waiting();
	if (missing_calls_forbid("pidfd_send_signal") < 0 || pidref_open(pid, &p) < 0 || p.fd < 0)
		return 1;
	return pidref_signal(&p, SIGKILL) == 0 && pidref_wait(&p, clock_now_ns() + LONG_NS) ? 0 : 2;
}

static void test_a_kernel_that_signals_no_descriptors_signals_by_number(void **state)
{
	(void)state;
	host_run(check_without_signals);
}

static void test_open_for_a_missing_process_does_not_change_the_reference(void **state)
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
		cmocka_unit_test(test_a_process_is_signaled_and_its_end_is_seen),
		cmocka_unit_test(test_without_a_descriptor_signals_go_by_number),
		cmocka_unit_test(test_without_a_descriptor_the_end_of_any_process_is_seen),
		cmocka_unit_test(test_poll_sees_the_end_and_other_descriptors),
		cmocka_unit_test(test_a_kernel_without_descriptors_for_processes_does_the_same_by_number),
		cmocka_unit_test(test_a_kernel_that_signals_no_descriptors_signals_by_number),
		cmocka_unit_test(test_open_for_a_missing_process_does_not_change_the_reference),
		cmocka_unit_test(test_a_queued_signal_carries_its_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
