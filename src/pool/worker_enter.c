/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "pool/warden_private.h"
#include "pool/worker.h"

#define EXIT_NOT_EXECUTED 127
#define NULL_PATH         "/dev/null"

/* Resets handlers and masks, which belong to the program or the warden, not to the worker. */
static void reset_signals(void)
{
	signals_reset();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Makes `opened` the descriptor `fd`. */
static int move_fd(int opened, int fd)
{
	if (opened == fd)
		return 0;
	int r = dup2(opened, fd) < 0 ? -errno : 0;
	close(opened);
	return r;
}

/*
 * Other users may have put a link, a pipe or a file of theirs in the place of the log. Only the links in the name of
 * the folder are followed.
 */
static int open_log(const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid())))
		r = -EPERM;
	if (r == 0 && fcntl(fd, F_SETFL, O_APPEND) < 0) /* the worker inherits a blocking descriptor */
		r = -errno;
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int open_null(int flags)
{
	int fd = open(NULL_PATH, flags);
	return fd < 0 ? -errno : fd;
}

static int redirect(const char *output_path)
{
	int fd = open_null(O_RDONLY);
	int r = fd < 0 ? fd : move_fd(fd, STDIN_FILENO);
	if (r < 0 || !output_path)
		return r;
	fd = strcmp(output_path, NULL_PATH) == 0 ? open_null(O_WRONLY) : open_log(output_path);
	r = fd < 0 ? fd : move_fd(fd, STDOUT_FILENO);
	if (r < 0)
		return r;
	return dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ? -errno : 0;
}

/*
 * Puts the descriptors at WORKER_FIRST_FD and up, and closes those above. First moves them out of the way, then into
 * place.
 */
static int place_fds(const int fds[WORKER_FDS])
{
	int high[WORKER_FDS];
	for (int i = 0; i < WORKER_FDS; i++) {
		high[i] = fcntl(fds[i], F_DUPFD, WORKER_FIRST_FD + WORKER_FDS);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < WORKER_FDS; i++)
		if (dup2(high[i], WORKER_FIRST_FD + i) < 0)
			return -errno;
	file_close_range(WORKER_FIRST_FD + WORKER_FDS, INT_MAX);
	return 0;
}

static void enter_executed(const struct warden_process *w, size_t slot, const int fds[WORKER_FDS])
{
	int r = place_fds(fds);
	if (r >= 0) {
		execvpe(w->plan->argv[0], (char *const *)w->plan->argv, w->plan->environments[slot]);
		r = -errno;
	}
	atomic_store(&w->shared->notes[slot].exec_error, r);
	_exit(EXIT_NOT_EXECUTED);
}

static void enter_forked(const struct warden_process *w, size_t slot, const int fds[WORKER_FDS])
{
	for (const struct gd_env_change *e = w->plan->env_changes[slot]; e->name; e++) {
		int r = e->value ? setenv(e->name, e->value, 1) : unsetenv(e->name);
		if (r < 0)
			_exit(1);
	}
	close(w->socket);
	if (w->parent.fd >= 0)
		close(w->parent.fd);
	close(w->wake_fd);
	close(w->signal_fd);
	munmap(w->shared, w->shared_size); /* a worker writes to its outbox and to nothing else of ours */
	const struct worker_fds worker_fds = {
		.inbox = fds[0], .outbox = fds[1], .socket = fds[2], .event = fds[3], .settings = fds[4]};
	_exit(worker_run(w->plan->ops, &worker_fds));
}

void worker_enter(const struct warden_process *w, size_t slot, const int fds[WARDEN_ORDER_FDS])
{
	/*
	 * PDEATHSIG is sent when the parent thread ends. The warden has one thread, so this means that the warden has
	 * died.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != w->pid)
		_exit(1);
	setpgid(0, 0);
	/*
	 * Orphans of the worker become its children and, when the worker ends, children of the warden. So all children
	 * of the warden that are not workers are orphans of dead workers.
	 */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "gd-worker");
	reset_signals();

	const char *output = w->plan->output_paths ? w->plan->output_paths[slot] : NULL;
	int r = redirect(output);
	if (r < 0) {
		atomic_store(&w->shared->notes[slot].exec_error, r);
		_exit(EXIT_NOT_EXECUTED);
	}
	const int all[WORKER_FDS] = {fds[0], fds[1], fds[2], w->plan->event_fd, w->plan->settings_fd};
	if (w->plan->argv)
		enter_executed(w, slot, all);
	enter_forked(w, slot, all);
	_exit(1);
}
