/* SPDX-License-Identifier: MIT */
#include "slurm/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/pidref.h"
#include "base/process.h"

/* Interval between kills of remaining processes. */
#define KILL_AGAIN_MS 20
/* Processes that survive longer are stuck in the kernel: leave the node to Slurm. */
#define GIVE_UP_MS 30000
/* How often to check the parent if the kernel has no descriptors for processes. */
#define PARENT_LOOK_MS 1000
/* Exit codes of the guard that agents do not use. */
#define NO_AGENT 255

uint64_t guard_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

int guard_renew(int fd, uint64_t deadline_ns)
{
	ssize_t n = send(fd, &deadline_ns, sizeof(deadline_ns), MSG_DONTWAIT | MSG_NOSIGNAL);
	return n == sizeof(deadline_ns) ? 0 : n < 0 ? -errno : -EIO;
}

/* ---- The guard ------------------------------------------------------------------------ */

/* Kills until this process has no descendants left: orphans become its children. */
static void sweep(void)
{
	uint64_t end = clock_now_ns() + GIVE_UP_MS * NS_PER_MS;
	for (;;) {
		process_signal_descendants(getpid(), SIGKILL);
		pid_t pid;
		while ((pid = process_reap(NULL)) > 0)
			;
		if (pid < 0 || clock_now_ns() > end)
			return;
		poll(NULL, 0, KILL_AGAIN_MS);
	}
}

struct guard {
	const struct guard_options *options;
	_Atomic uint64_t *deadline_ns; /* shared with the sweeper */
	timer_t timer;
	int renew_fd;
	int signal_fd;
	pid_t sweeper, agent;
	bool namespaced;
};

static int arm(struct guard *g, uint64_t deadline_ns)
{
	struct itimerspec at = {.it_value = {(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)}};
	/* A deadline of 0 would disarm the timer. */
	if (deadline_ns == 0)
		at.it_value.tv_nsec = 1;
	/* First: the timer may kill this process before the next line. */
	*g->deadline_ns = deadline_ns;
	return timer_settime(g->timer, TIMER_ABSTIME, &at, NULL) < 0 ? -errno : 0;
}

/* The first process of a PID namespace needs its own /proc: keepers find their descendants there. */
static bool mount_proc(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

_Noreturn static void become_agent(const struct guard_options *o, int fd, int go_fd, const sigset_t *mask)
{
	char byte;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The guard writes when it holds no file. The pipe ends without a byte if the guard dies before. */
	if (read(go_fd, &byte, 1) != 1)
		_exit(NO_AGENT);
	close(go_fd);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(o->agent(o->context, fd));
}

/* clone() instead of unshare(): the guard itself stays outside, where the timer's signal can kill it. */
static pid_t fork_agent(struct guard *g, int fd, const int go[2], const sigset_t *mask)
{
	const struct guard_options *o = g->options;
	int ready[2];
	if (!o->no_namespace && pipe2(ready, O_CLOEXEC) == 0) {
		pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, 0UL);
		if (pid == 0) {
			if (!mount_proc())
				_exit(NO_AGENT);
			(void)!write(ready[1], "", 1);
			close(ready[0]);
			close(ready[1]);
			close(go[1]);
			become_agent(o, fd, go[0], mask);
		}
		close(ready[1]);
		char byte;
		if (pid > 0 && read(ready[0], &byte, 1) == 1)
			g->namespaced = true;
		else if (pid > 0)
			waitpid(pid, NULL, 0);
		close(ready[0]);
		if (g->namespaced)
			return pid;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(go[1]);
		become_agent(o, fd, go[0], mask);
	}
	return pid;
}

/*
 * A process that dies closes its files before its children and its parent notice its death. On a file system that
 * hangs, closing waits: a guard with an open file there, such as the output of the pilot, would not die in time.
 */
static int release_files(const struct guard *g, int go_fd)
{
	int keep[] = {g->renew_fd, g->signal_fd, go_fd}, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return -errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != null_fd && dup2(null_fd, fd) < 0)
			return -errno;
	file_close_except(STDERR_FILENO + 1, keep, 3);
	return 0;
}

static void on_renewals(struct guard *g)
{
	uint64_t deadline_ns;
	while (recv(g->renew_fd, &deadline_ns, sizeof(deadline_ns), MSG_DONTWAIT) == sizeof(deadline_ns)) {
		if (g->options->until_ns && deadline_ns > g->options->until_ns)
			deadline_ns = g->options->until_ns;
		if (arm(g, deadline_ns) < 0)
			kill(getpid(), SIGKILL);
	}
}

/* Takes the agent's exit code when it has ended. Passes other signals on to the agent. */
static void on_signals(struct guard *g)
{
	struct signalfd_siginfo si;
	int status;
	while (read(g->signal_fd, &si, sizeof(si)) == sizeof(si))
		if (si.ssi_signo != SIGCHLD && si.ssi_signo != SIGHUP)
			kill(g->agent, (int)si.ssi_signo);
	/* The sweeper was killed: only this process can find processes that left their session. */
	if (getppid() != g->sweeper) {
		sweep();
		_exit(NO_AGENT);
	}
	for (pid_t pid; (pid = process_reap(&status)) > 0;)
		if (pid == g->agent)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NO_AGENT);
}

_Noreturn static void guard_main(struct guard g, const sigset_t *mask, int report_fd)
{
	const struct guard_options *o = g.options;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	int renew[2], go[2];
	sigset_t set;
	prctl(PR_SET_NAME, "gpuq-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Arm the timer first: nothing below may run without a deadline. */
	if (timer_create(CLOCK_BOOTTIME, &event, &g.timer) < 0 || arm(&g, o->first_ns) < 0 || chdir("/") < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, renew) < 0 || pipe2(go, O_CLOEXEC) < 0)
		_exit(NO_AGENT);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	g.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	g.agent = fork_agent(&g, renew[1], go, mask);
	if (g.signal_fd < 0 || g.agent < 0)
		_exit(NO_AGENT);
	g.renew_fd = renew[0];
	char byte = g.namespaced ? 'n' : '-';
	(void)!write(report_fd, &byte, 1);
	if (release_files(&g, go[1]) < 0 || write(go[1], "", 1) != 1)
		_exit(NO_AGENT);
	close(go[1]);
	/* Best effort: limits of ordinary users may be lower. The kernel timer works regardless. */
	(void)mlockall(MCL_CURRENT | MCL_FUTURE);
	for (;;) {
		struct pollfd fds[2] = {{g.signal_fd, POLLIN, 0}, {g.renew_fd, POLLIN, 0}};
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents & POLLIN)
			on_renewals(&g);
		else if (fds[1].revents)
			g.renew_fd = -1;
		if (fds[0].revents)
			on_signals(&g);
	}
}

/* ---- The sweeper ---------------------------------------------------------------------- */

/*
 * The parent is slurmstepd. If it is killed, Slurm considers the job ended and gives its GPUs to others, but signals
 * nobody: end the pilot.
 */
static void await_guard(pid_t guard, int signal_fd, int *ret_status)
{
	pid_t parent = getppid(); /* 0: outside this PID namespace */
	cleanup_(pidref_close) struct pidref above = PIDREF_NONE;
	if (parent > 0)
		(void)pidref_open(parent, &above);
	for (bool has_parent = parent > 0;;) {
		struct pollfd fds[2] = {{signal_fd, POLLIN, 0}, {has_parent ? above.fd : -1, POLLIN, 0}};
		struct signalfd_siginfo si;
		if (poll(fds, 2, has_parent && above.fd < 0 ? PARENT_LOOK_MS : -1) < 0)
			continue;
		if (has_parent && getppid() != parent) {
			has_parent = false;
			kill(guard, SIGTERM);
		}
		while (read(signal_fd, &si, sizeof(si)) == sizeof(si))
			if (si.ssi_signo != SIGCHLD)
				kill(guard, si.ssi_signo == SIGHUP ? SIGTERM : (int)si.ssi_signo);
		for (pid_t pid; (pid = process_reap(ret_status)) > 0;)
			if (pid == guard)
				return;
	}
}

int guard_run(const struct guard_options *options, struct guard_result *ret, struct gd_error *err)
{
	sigset_t set, mask;
	int report[2], status = 0;
	struct guard_result result = {.exit_code = -1};
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, &mask) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return error_set(err, -errno, "cannot start the guard: %s", error_words(errno));
	_Atomic uint64_t *deadline_ns =
		mmap(NULL, sizeof(*deadline_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cleanup_(closep) int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (deadline_ns == MAP_FAILED || signal_fd < 0 || pipe2(report, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot start the guard: %s", error_words(errno));
	pid_t parent = getpid(), guard = fork();
	if (guard == 0) {
		/* The signal is blocked and read from a descriptor: the guard sweeps if the sweeper cannot. */
		prctl(PR_SET_PDEATHSIG, SIGHUP);
		close(report[0]);
		close(signal_fd);
		if (getppid() != parent)
			_exit(NO_AGENT);
		struct guard g = {.options = options, .deadline_ns = deadline_ns, .sweeper = parent};
		guard_main(g, &mask, report[1]);
	}
	close(report[1]);
	if (guard < 0) {
		int r = -errno;
		close(report[0]);
		return error_set(err, r, "cannot start the guard: %s", error_words(r));
	}
	char byte = 0;
	(void)!read(report[0], &byte, 1);
	close(report[0]);
	result.namespaced = byte == 'n';
	/* Lock the memory, as in the guard: code that must be read from a hanging file system would come too late. */
	(void)mlockall(MCL_CURRENT | MCL_FUTURE);
	await_guard(guard, signal_fd, &status);
	result.killed = WIFSIGNALED(status);
	result.deadline_ns = *deadline_ns;
	result.expired = result.killed && guard_now_ns() >= result.deadline_ns;
	sweep();
	if (WIFEXITED(status) && WEXITSTATUS(status) != NO_AGENT)
		result.exit_code = WEXITSTATUS(status);
	munmap((void *)deadline_ns, sizeof(*deadline_ns));
	*ret = result;
	return 0;
}
