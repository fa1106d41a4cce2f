/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "slurm/guard.h"
#include "support/check.h"
#include "support/process.h"
#include "support/scratch.h"
#include "support/wait.h"

#define SHORT_NS (300 * NS_PER_MS)
#define FAR_NS   (3600 * NS_PER_S)

/* The behavior of a test's agent, and its results. */
struct play {
	uint64_t first_ns;
	bool no_namespace;
	bool leaves_session; /* it has a grandchild in another session */
	uint64_t renew_ns;   /* if not 0, it renews until then */
	int exit_code;       /* it exits when first_ns has passed; -1: never */
};

static void write_number(const char *file, long long n)
{
	char text[32], name[64];
	snprintf(text, sizeof(text), "%lld", n);
	snprintf(name, sizeof(name), "%s.new", file);
	scratch_write_text(name, text);
	check_equal(rename(name, file), 0);
}

static long long read_number(const char *file)
{
	wait_until(scratch_has(file));
	return atoll(scratch_read(file));
}

/* A process of the agent that does not die with it by itself. */
static void start_escaping(void)
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			process_hang();
		process_hang();
	}
}

static int agent(void *context, int fd)
{
	const struct play *p = context;
	check_become_host();
	if (p->leaves_session)
		start_escaping();
	if (p->renew_ns)
		check_equal(guard_renew(fd, p->renew_ns), 0);
	if (chdir(scratch_path()) == 0)
		write_number("agent", (long long)getpid());
	while (p->exit_code < 0 || guard_now_ns() < p->first_ns + SHORT_NS)
		usleep(1000);
	return p->exit_code;
}

/* Starts a sweeper process, which writes the result to the file `result`. */
static pid_t start(const struct play *p, uint64_t until_ns)
{
	unlink("agent");
	unlink("result");
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	check_become_host();
	struct play copy = *p;
	struct guard_result result;
	struct guard_options o = {.first_ns = p->first_ns,
		.until_ns = until_ns,
		.no_namespace = p->no_namespace,
		.agent = agent,
		.context = &copy};
	check_equal(guard_run(&o, &result, NULL), 0);
	char text[64];
	snprintf(text, sizeof(text), "%d %d%d %d", result.exit_code, result.killed, result.expired, result.namespaced);
	scratch_write_text("result", text);
	_exit(0);
}

static pid_t first_child(pid_t pid)
{
	pid_t *children = NULL, child = process_children(pid, &children) > 0 ? children[0] : 0;
	free(children);
	return child;
}

static pid_t only_child(pid_t pid)
{
	pid_t child;
	wait_until((child = first_child(pid)) > 0);
	return child;
}

/* All descendants of pid. */
static size_t below(pid_t pid, pid_t *ret, size_t room)
{
	pid_t *children = NULL;
	size_t n = 0;
	int count = process_children(pid, &children);
	for (int i = 0; i < count && n < room; i++) {
		ret[n++] = children[i];
		n += below(children[i], ret + n, room - n);
	}
	free(children);
	return n;
}

static bool is_namespaced(void)
{
	return strstr(scratch_read("result"), "1 1") || strstr(scratch_read("result"), "0 1");
}

static void test_exit_code_of_the_agent_is_passed_on(void **state)
{
	(void)state;
	for (int no_namespace = 0; no_namespace < 2; no_namespace++) {
		uint64_t now = guard_now_ns();
		pid_t pid = start(
			&(struct play){now + SHORT_NS, no_namespace, .renew_ns = now + FAR_NS, .exit_code = 7}, 0);
		assert_int_equal(process_exit_code(pid), 0);
		/* It lived beyond its first deadline, because it renewed. */
		assert_int_equal(strncmp(scratch_read("result"), "7 0", 3), 0);
	}
}

static void test_lease_that_is_not_renewed_ends_everything(void **state)
{
	(void)state;
	for (int no_namespace = 0; no_namespace < 2; no_namespace++) {
		uint64_t first = guard_now_ns() + SHORT_NS;
		pid_t pid = start(&(struct play){first, no_namespace, .exit_code = -1}, 0);
		assert_int_equal(process_exit_code(pid), 0);
		assert_true(guard_now_ns() >= first);
		assert_int_equal(strncmp(scratch_read("result"), "-1 11", 5), 0);
	}
}

static void test_renewals_do_not_go_beyond_the_end_of_the_pilot(void **state)
{
	(void)state;
	uint64_t now = guard_now_ns();
	pid_t pid =
		start(&(struct play){now + FAR_NS, true, .renew_ns = now + FAR_NS, .exit_code = -1}, now + SHORT_NS);
	assert_int_equal(process_exit_code(pid), 0);
	assert_int_equal(strncmp(scratch_read("result"), "-1 11", 5), 0);
}

/* The kernel enforces the deadline: the guard need not run. */
static void test_stopped_guard_dies_in_time_with_its_agent(void **state)
{
	(void)state;
	for (int no_namespace = 0; no_namespace < 2; no_namespace++) {
		uint64_t first = guard_now_ns() + 3 * SHORT_NS;
		pid_t sweeper = start(&(struct play){first, no_namespace, .exit_code = -1}, 0);
		pid_t guard = only_child(sweeper), all[8];
		(void)read_number("agent");
		pid_t agent_pid = only_child(guard);
		assert_int_equal(kill(guard, SIGSTOP), 0);
		assert_int_equal(below(sweeper, all, 8), 2);
		assert_true(process_await_gone(guard, WAIT_MS));
		assert_true(guard_now_ns() >= first);
		assert_true(process_await_gone(agent_pid, WAIT_MS));
		assert_int_equal(process_exit_code(sweeper), 0);
	}
}

/* A process with an open file on a file system that hangs does not die in time. */
static void test_guard_holds_no_file_when_its_agent_runs(void **state)
{
	(void)state;
	scratch_write_text("held", "x");
	int held = open("held", O_RDONLY);
	assert_true(held >= 0);
	for (int no_namespace = 0; no_namespace < 2; no_namespace++) {
		pid_t sweeper = start(&(struct play){guard_now_ns() + FAR_NS, no_namespace, .exit_code = -1}, 0);
		pid_t guard = only_child(sweeper);
		char path[64], target[4096];
		int num_pipes = 0;
		(void)read_number("agent");
		snprintf(path, sizeof(path), "/proc/%d/fd", (int)guard);
		DIR *d = opendir(path);
		assert_non_null(d);
		for (struct dirent *e; (e = readdir(d));) {
			ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
			if (n < 0)
				continue; /* "." and ".." */
			target[n] = '\0';
			num_pipes += strncmp(target, "pipe:", 5) == 0;
			assert_true(target[0] != '/' || strcmp(target, "/dev/null") == 0);
		}
		closedir(d);
		assert_int_equal(num_pipes, 0);
		assert_int_equal(kill(guard, SIGKILL), 0);
		assert_int_equal(process_exit_code(sweeper), 0);
	}
	close(held);
}

static void test_child_in_another_session_dies_with_the_guard(void **state)
{
	(void)state;
	uint64_t first = guard_now_ns() + 3 * SHORT_NS;
	pid_t sweeper = start(&(struct play){first, true, .leaves_session = true, .exit_code = -1}, 0);
	pid_t all[8];
	(void)read_number("agent");
	wait_until(below(sweeper, all, 8) == 4);
	assert_int_equal(kill(only_child(sweeper), SIGSTOP), 0);
	for (int i = 0; i < 4; i++)
		assert_true(process_await_gone(all[i], WAIT_MS));
	assert_int_equal(process_exit_code(sweeper), 0);
}

/* With PID namespaces no process has to act: sweeper and guard are stopped. */
static void test_child_in_another_session_dies_in_a_namespace_though_all_above_are_stopped(void **state)
{
	(void)state;
	uint64_t now = guard_now_ns();
	pid_t probe = start(&(struct play){now + SHORT_NS, .exit_code = 0, .renew_ns = now + FAR_NS}, 0);
	assert_int_equal(process_exit_code(probe), 0);
	if (!is_namespaced())
		skip();
	pid_t sweeper =
		start(&(struct play){guard_now_ns() + 3 * SHORT_NS, .leaves_session = true, .exit_code = -1}, 0);
	pid_t all[8];
	(void)read_number("agent");
	wait_until(below(sweeper, all, 8) == 4);
	assert_int_equal(kill(sweeper, SIGSTOP), 0);
	assert_int_equal(kill(all[0], SIGSTOP), 0);
	for (int i = 0; i < 4; i++)
		assert_true(process_await_gone(all[i], WAIT_MS));
	assert_int_equal(kill(sweeper, SIGCONT), 0);
	assert_int_equal(process_exit_code(sweeper), 0);
}

/* Including processes that left their session. */
static void test_killed_guard_takes_everything_along(void **state)
{
	(void)state;
	pid_t sweeper =
		start(&(struct play){guard_now_ns() + FAR_NS, true, .leaves_session = true, .exit_code = -1}, 0);
	pid_t all[8];
	(void)read_number("agent");
	wait_until(below(sweeper, all, 8) == 4);
	assert_int_equal(kill(all[0], SIGKILL), 0);
	assert_int_equal(process_exit_code(sweeper), 0);
	assert_int_equal(strncmp(scratch_read("result"), "-1 10", 5), 0);
	for (int i = 0; i < 4; i++)
		assert_true(process_await_gone(all[i], WAIT_MS));
}

/* Long before the lease ends. */
static void test_killed_sweeper_takes_everything_along(void **state)
{
	(void)state;
	pid_t sweeper =
		start(&(struct play){guard_now_ns() + FAR_NS, true, .leaves_session = true, .exit_code = -1}, 0);
	pid_t all[8];
	(void)read_number("agent");
	wait_until(below(sweeper, all, 8) == 4);
	assert_int_equal(kill(sweeper, SIGKILL), 0);
	assert_int_equal(waitpid(sweeper, NULL, 0), sweeper);
	for (int i = 0; i < 4; i++)
		assert_true(process_await_gone(all[i], WAIT_MS));
}

/* Slurm's own process above the pilot is killed: Slurm takes the pilot for ended, so it ends. */
static void test_killed_parent_ends_the_pilot(void **state)
{
	(void)state;
	pid_t parent = fork();
	if (parent == 0) {
		write_number("sweeper",
			start(&(struct play){guard_now_ns() + FAR_NS, true, .leaves_session = true, .exit_code = -1},
				0));
		process_hang();
	}
	pid_t sweeper = (pid_t)read_number("sweeper"), all[8];
	(void)read_number("agent");
	wait_until(below(sweeper, all, 8) == 4);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_true(process_await_gone(sweeper, WAIT_MS));
	for (int i = 0; i < 4; i++)
		assert_true(process_await_gone(all[i], WAIT_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_exit_code_of_the_agent_is_passed_on),
		scratch_test(test_lease_that_is_not_renewed_ends_everything),
		scratch_test(test_renewals_do_not_go_beyond_the_end_of_the_pilot),
		scratch_test(test_stopped_guard_dies_in_time_with_its_agent),
		scratch_test(test_guard_holds_no_file_when_its_agent_runs),
		scratch_test(test_child_in_another_session_dies_with_the_guard),
		scratch_test(test_child_in_another_session_dies_in_a_namespace_though_all_above_are_stopped),
		scratch_test(test_killed_guard_takes_everything_along),
		scratch_test(test_killed_sweeper_takes_everything_along),
		scratch_test(test_killed_parent_ends_the_pilot),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
