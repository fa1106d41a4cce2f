/* SPDX-License-Identifier: MIT */
#include "launch/plugin_inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/helper.h"
#include "base/pidref.h"
#include "base/signals.h"
#include "launch/worker_arguments.h"

#define REAP_MS 5000

extern char **environ;

/* ---- Starting ----------------------------------------------------------- */

static int add_actions(posix_spawn_file_actions_t *actions, int report_fd, int settings_fd)
{
	int r = 0;
	/* Constructors must not read the caller's input or print to its output. */
	for (int fd = 0; r == 0 && fd <= STDERR_FILENO; fd++)
		r = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
	if (r == 0 && settings_fd >= 0)
		r = posix_spawn_file_actions_adddup2(actions, settings_fd, STDIN_FILENO);
	return r ? r : posix_spawn_file_actions_adddup2(actions, report_fd, PLUGIN_REPORT_FD);
}

/* In its own process group, so that all processes started by its constructors can be killed. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	int r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setpgroup(attributes, 0);
	return r ? r
		 : posix_spawnattr_setflags(
			   attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
}

static int spawn(const char *helper, const char *path, int report_fd, int settings_fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char *const argv[] = {(char *)WORKER_HELPER, (char *)WORKER_INSPECT, (char *)path, NULL};
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	r = add_actions(&actions, report_fd, settings_fd);
	if (r == 0)
		r = set_attributes(&attributes);
	if (r == 0)
		r = posix_spawn(ret, helper, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* ---- The report --------------------------------------------------------- */

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
	if (ret->size != sizeof(*ret))
		return -EPROTO;
	/* A constructor may have overwritten the strings. */
	ret->words[sizeof(ret->words) - 1] = '\0';
	ret->facts.about[sizeof(ret->facts.about) - 1] = '\0';
	return 1;
}

/* Without a report: the status of wait(2), unless the process was reaped elsewhere. */
static int say_death(const char *path, bool known, int status, struct gd_error *err)
{
	if (known && WIFSIGNALED(status))
		return error_set(err, -ELIBBAD, "the worker '%s' crashed while it was loaded: %s", path,
			signal_name(WTERMSIG(status)));
	if (known)
		return error_set(err, -ELIBBAD, "the worker '%s' exited while it was loaded: exit code %d", path,
			WEXITSTATUS(status));
	return error_set(err, -ELIBBAD, "the worker '%s' exited while it was loaded", path);
}

/* Gives up on a process that a driver holds in the kernel. */
static bool reap(const struct pidref *child, int *ret_status)
{
	pidref_wait(child, clock_now_ns() + REAP_MS * NS_PER_MS);
	return waitpid(child->pid, ret_status, WNOHANG) == child->pid;
}

/* A file in memory with the settings, to be read from its beginning. */
static int write_settings(const struct plugin_settings *settings)
{
	cleanup_(closep) int fd = file_above_stdio(memfd_create("settings", MFD_CLOEXEC));
	int r = fd < 0 ? fd : settings->count ? 0 : file_write_all(fd, "", 1);
	for (size_t i = 0; r == 0 && i < settings->count; i++) {
		const struct gd_setting *s = &settings->list[i];
		r = file_write_all(fd, s->key, strlen(s->key) + 1);
		if (r == 0)
			r = file_write_all(fd, s->value, strlen(s->value) + 1);
	}
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : take_fd(&fd);
}

int plugin_inspect(const char *path, const struct plugin_settings *settings, int limit_ms, struct plugin_facts *ret,
	struct gd_error *err)
{
	char helper[PATH_MAX];
	int r = helper_find(WORKER_HELPER, WORKER_HELPER_PATH, helper, sizeof(helper), err);
	if (r < 0)
		return r;
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot create a pipe: %s", error_words(-errno));
	cleanup_(closep) int ours = file_above_stdio(fds[0]);
	cleanup_(closep) int theirs = file_above_stdio(fds[1]);
	cleanup_(closep) int settings_fd = settings ? write_settings(settings) : -1;
	pid_t pid = 0;
	r = ours < 0                      ? ours
	    : theirs < 0                  ? theirs
	    : settings && settings_fd < 0 ? settings_fd
					  : spawn(helper, path, theirs, settings_fd, &pid);
	if (r < 0)
		return error_set(err, r, "cannot start '%s': %s", helper, error_words(r));
	close_fd(&theirs);
	cleanup_(pidref_close) struct pidref child = {.pid = pid, .fd = -1};
	(void)pidref_open(pid, &child); /* without a descriptor, the pid is used */

	struct plugin_report report;
	r = await_report(ours, clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS, &report);
	if (r != 0) {
		kill(-pid, SIGKILL); /* and all processes started by its constructors */
		pidref_signal(&child, SIGKILL);
	}
	int status = 0;
	bool known = reap(&child, &status);
	if (r == -ETIMEDOUT)
		return error_set(err, r, "the worker '%s' did not load within %d s", path, limit_ms / 1000);
	if (r < 0)
		return error_set(err, r, "cannot inspect the worker '%s': %s", path, error_words(r));
	if (r == 0)
		return say_death(path, known, status, err);
	if (report.code < 0)
		return error_set(err, report.code, "%s", report.words);
	*ret = report.facts;
	return 0;
}
