/* SPDX-License-Identifier: MIT */
#include "launch/plugin_inspect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/pidref.h"
#include "base/signals.h"
#include "base/utf8.h"

#define REAP_MS 5000

/* What the child found, sent to the parent through a pipe. */
struct plugin_report {
	int code; /* 0, or why not */
	char words[400];
	struct plugin_facts facts;
};

static int check_hooks(const struct gd_worker_ops *ops, const char *path, struct gd_error *err)
{
	if (!ops->process && !ops->process_batch)
		return error_set(err, -EINVAL, "the worker '%s' has neither process nor process_batch in its '%s'",
			path, PLUGIN_SYMBOL);
	return 0;
}

static int load(const char *path, const struct gd_worker_ops **ret, const char **ret_about, struct gd_error *err)
{
	/* Now, not at the first call: what is missing is to be found before there is work. */
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return error_set(err, -ELIBBAD, "the worker cannot be loaded: %s", dlerror());
	const struct gd_worker_ops *ops = dlsym(handle, PLUGIN_SYMBOL);
	if (!ops)
		return error_set(err, -ENOENT,
			"the worker '%s' exports no '%s'; it needs: const struct gd_worker_ops gd_worker = …", path,
			PLUGIN_SYMBOL);
	int r = check_hooks(ops, path, err);
	if (r < 0)
		return r;
	*ret_about = dlsym(handle, PLUGIN_ABOUT);
	*ret = ops;
	return 0;
}

int plugin_load(const char *path, const struct gd_worker_ops **ret, struct gd_error *err)
{
	const char *about;
	return load(path, ret, &about, err);
}

/* ---- In the child ------------------------------------------------------- */

/* Nothing that a constructor prints, reads or starts is the caller's business. */
static void seal_off(void)
{
	signals_reset();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
}

static _Noreturn void child_main(const char *path, int fd, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	seal_off();
	struct plugin_report report = {0};
	struct gd_error err = {0};
	const struct gd_worker_ops *ops = NULL;
	const char *about = NULL;
	report.code = load(path, &ops, &about, &err);
	snprintf(report.words, sizeof(report.words), "%.*s", (int)sizeof(report.words) - 1, err.message);
	if (report.code == 0) {
		report.facts.has_batch = ops->process_batch != NULL;
		report.facts.max_batch = ops->max_batch;
		report.facts.has_cleanup = ops->cleanup != NULL;
		if (about)
			utf8_copy_line(report.facts.about, sizeof(report.facts.about), about,
				strnlen(about, sizeof(report.facts.about)));
	}
	_exit(file_write_all(fd, &report, sizeof(report)) < 0);
}

/* ---- Outside ------------------------------------------------------------ */

/* 1 with a report, 0 at its end without one, -ETIMEDOUT. */
static int await_report(int fd, uint64_t deadline_ns, struct plugin_report *ret)
{
	size_t have = 0;
	while (have < sizeof(*ret)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, clock_ms_until(deadline_ns, clock_now_ns()));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		ssize_t got = read(fd, (char *)ret + have, sizeof(*ret) - have);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0)
			have += (size_t)got;
	}
	/* It may have been scribbled on. */
	ret->words[sizeof(ret->words) - 1] = '\0';
	ret->facts.about[sizeof(ret->facts.about) - 1] = '\0';
	return 1;
}

/* Without a report: what wait(2) knows of it, if somebody else has not waited for it. */
static int say_death(const char *path, bool known, int status, struct gd_error *err)
{
	if (known && WIFSIGNALED(status))
		return error_set(err, -ELIBBAD, "the worker '%s' crashes while it is being loaded: %s", path,
			signal_name(WTERMSIG(status)));
	if (known)
		return error_set(err, -ELIBBAD, "the worker '%s' ends the program while it is being loaded: exit %d",
			path, WEXITSTATUS(status));
	return error_set(err, -ELIBBAD, "the worker '%s' ends the program while it is being loaded", path);
}

/* One that a driver holds in the kernel is left to it. */
static bool reap(const struct pidref *child, int *ret_status)
{
	pidref_wait(child, clock_now_ns() + REAP_MS * NS_PER_MS);
	return waitpid(child->pid, ret_status, WNOHANG) == child->pid;
}

int plugin_inspect(const char *path, int limit_ms, struct plugin_facts *ret, struct gd_error *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, -errno, "no pipe could be made: %s", error_words(-errno));
	cleanup_(closep) int ours = file_above_stdio(fds[0]);
	cleanup_(closep) int theirs = file_above_stdio(fds[1]);
	pid_t parent = getpid();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		child_main(path, theirs, parent);
	if (pid < 0)
		return error_set(err, -errno, "no process could be made: %s", error_words(-errno));
	close_fd(&theirs);
	cleanup_(pidref_close) struct pidref child = {.pid = pid, .fd = -1};
	(void)pidref_open(pid, &child); /* without a descriptor, its number does */

	struct plugin_report report;
	int r = await_report(ours, clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS, &report);
	if (r != 0) {
		kill(-pid, SIGKILL); /* with what its constructors have started */
		pidref_signal(&child, SIGKILL);
	}
	int status = 0;
	bool known = reap(&child, &status);
	if (r == -ETIMEDOUT)
		return error_set(err, r, "the worker '%s' is not loaded after %d s: something hangs in it", path,
			limit_ms / 1000);
	if (r < 0)
		return error_set(err, r, "the worker '%s' could not be looked at: %s", path, error_words(r));
	if (r == 0)
		return say_death(path, known, status, err);
	if (report.code < 0)
		return error_set(err, report.code, "%s", report.words);
	*ret = report.facts;
	return 0;
}
