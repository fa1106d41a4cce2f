/* SPDX-License-Identifier: MIT */
/* The processes of `gpuq launch --slurm` besides its pool: the coordinator, and the one that prepares the queue. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/signals.h"
#include "cli/exit_code.h"
#include "cli/launch_slurm.h"
#include "cli/say.h"
#include "cli/slurm_launch.h"
#include "cli/stop_signals.h"
#include "cli/subprogram.h"
#include "slurm/file_worker.h"

#define READY_FD      3
#define READY_FD_TEXT "3"
#define CONFIG_NAME   "gpuq.yaml"
#define LOG_NAME      "coordinator.log"
#define MOST_WORDS    64

/* ---- The command line ------------------------------------------------------------------------- */

struct words {
	const char *list[MOST_WORDS];
	size_t count;
	char number[16];
	struct text journal, config;
};

static void add(struct words *w, const char *option, const char *value)
{
	if (!value)
		return;
	w->list[w->count++] = option;
	w->list[w->count++] = value;
}

/* Uses an empty configuration file: the user's settings are for other jobs. */
static void make_words(struct words *w, const struct launch_slurm *s, const char *commands)
{
	const struct launch_slurm_options *o = s->options;
	snprintf(w->number, sizeof(w->number), "%u", o->max_nodes);
	text_appendf(&w->journal, "%s/" FILE_JOURNAL_NAME, s->dir);
	text_appendf(&w->config, "%s/" CONFIG_NAME, s->dir);
	w->list[w->count++] = "gpuq run"; /* under this name, gpuq-slurm is a coordinator */
	w->list[w->count++] = "--quiet";
	w->list[w->count++] = "--no-panel";
	add(w, "--ready-fd", READY_FD_TEXT);
	add(w, "--jobs-file", text_string(&w->journal));
	add(w, "--config", text_string(&w->config));
	for (size_t i = 0; i < o->num_kinds; i++)
		add(w, "--slurm", o->kinds[i]);
	add(w, "--max-nodes", w->number);
	add(w, "--slurm-silence", o->silence);
	add(w, "--slurm-lease", o->lease);
	add(w, "--slurm-address", o->address);
	/* Without commands, the coordinator runs until the existing jobs have ended. */
	add(w, commands ? "--commands-file" : "--linger", commands ? commands : "1ms");
}

/* ---- The coordinator ---------------------------------------------------------------------------- */

_Noreturn static void become(const struct launch_slurm *s, const struct words *w, int log, int ready)
{
	sigset_t none;
	/* In its own session: Ctrl-C reaches only the launcher, and the coordinator survives a killed launcher. */
	setsid();
	signals_reset();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(1);
	if (ready == READY_FD ? fcntl(ready, F_SETFD, 0) < 0 : dup2(ready, READY_FD) < 0)
		_exit(1);
	file_close_range(READY_FD + 1, INT_MAX);
	execv(s->program, (char *const *)(uintptr_t)w->list);
	_exit(127);
}

static int open_log(struct launch_slurm *s, int *ret_fd)
{
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&path, "%s/" LOG_NAME, s->dir);
	if (text_error(&path))
		return -ENOMEM;
	const char *name = text_string(&path);
	*ret_fd = file_above_stdio(open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
	if (*ret_fd < 0)
		return *ret_fd;
	if (s->log_fd < 0)
		s->log_fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return s->log_fd < 0 ? -errno : 0;
}

/* The pipe carries "CODE MESSAGE" when the coordinator is ready (0) or has failed; see background_tell(). */
static int wait_until_ready(struct launch_slurm *s, int fd, struct gd_error *err)
{
	char message[1200];
	size_t have = 0;
	while (have < sizeof(message) - 1) {
		struct pollfd p = {fd, POLLIN, 0};
		int n = poll(&p, 1, 100);
		launch_slurm_say(s);
		if (stop_signals_count() > 0)
			return error_set(err, -ECANCELED, "interrupted");
		if (n <= 0)
			continue;
		ssize_t got = read(fd, message + have, sizeof(message) - 1 - have);
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	message[have] = '\0';
	char *words;
	long code = strtol(message, &words, 10);
	if (have && code == 0)
		return 0;
	launch_slurm_say(s);
	return error_set(err, have && code < 0 ? (int)code : -EIO, "cannot start the coordinator: %s",
		have && code < 0 ? words + 1 : "it ended before it was ready");
}

static int write_config(const struct words *w)
{
	cleanup_(closep) int fd =
		open(text_string(&w->config), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : 0;
}

static int spawn(struct launch_slurm *s, const struct words *w, int *ret_ready)
{
	int ends[2], log;
	int r = open_log(s, &log);
	if (r < 0)
		return r;
	/* gpuq-slurm checks that a program of gpuq has executed it. */
	if (setenv(SUBPROGRAM_MARK, s->program, 1) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
		r = -errno;
		close(log);
		return r;
	}
	pid_t pid = fork();
	if (pid == 0)
		become(s, w, log, ends[1]);
	r = pid < 0 ? -errno : 0;
	unsetenv(SUBPROGRAM_MARK);
	close(log);
	close(ends[1]);
	if (r < 0) {
		close(ends[0]);
		return r;
	}
	s->coordinator = pid;
	*ret_ready = ends[0];
	return 0;
}

int launch_slurm_start(struct launch_slurm *s, const char *commands, struct gd_error *err)
{
	struct words w = {0};
	cleanup_(closep) int ready = -1;
	make_words(&w, s, commands);
	int r = text_error(&w.journal) || text_error(&w.config) ? -ENOMEM : write_config(&w);
	if (r == 0)
		r = spawn(s, &w, &ready);
	text_finish(&w.journal);
	text_finish(&w.config);
	if (r < 0)
		return error_set(err, r, "cannot start the coordinator: %s", error_words(r));
	return wait_until_ready(s, ready, err);
}

bool launch_slurm_wait(struct launch_slurm *s, int ms)
{
	uint64_t until_ns = clock_now_ns() + (uint64_t)ms * NS_PER_MS;
	int status;
	while (s->coordinator > 0) {
		pid_t pid = waitpid(s->coordinator, &status, WNOHANG);
		if (pid == s->coordinator && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE)
			s->refused = true;
		if (pid == s->coordinator || (pid < 0 && errno == ECHILD))
			s->coordinator = 0;
		else if (clock_now_ns() >= until_ns)
			return false;
		else
			(void)poll(NULL, 0, 20);
	}
	return true;
}

/* ---- Preparing the queue ------------------------------------------------------------------------ */

int launch_slurm_prepare(const struct launch_slurm *s, struct gd_error *err)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		signals_reset();
		execl(s->program, s->program, SLURM_LAUNCH_PREPARE, s->dir, (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		return error_set(err, -errno, "cannot start '%s': %s", s->program, error_words(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, -errno, "cannot wait for '%s': %s", s->program, error_words(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == SLURM_LAUNCH_BUSY)
		return -EBUSY;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_DONE)
		return error_set(err, -EIO, "cannot prepare queue '%s'", s->dir);
	return 0;
}
