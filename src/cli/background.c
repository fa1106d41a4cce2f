/* SPDX-License-Identifier: MIT */
#include "cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cost_limit.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/named_file.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/text.h"
#include "cli/debug.h"
#include "cli/say.h"
#include "cli/subprogram.h"
#include "pool/warden.h"
#include "queue/input/config_keys.h"

/* The runner exits after the queue has been empty for this many seconds. */
#define LINGER "60"

/* The runner's descriptor of the pipe to the process that started it. */
#define READY_FD      3
#define READY_FD_TEXT "3"

/* In the grandchild: closes everything inherited from the caller, so that `id=$(gpuq add …)` and ssh return. */
_Noreturn static void become_runner(const char *const *argv, int directory, int log, int ready)
{
	sigset_t none;
	cost_limit_leave();
	setsid();
	signals_reset();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (directory >= 0 && fchdir(directory) < 0)
		_exit(1);
	int null = open("/dev/null", O_RDWR);
	int out = log >= 0 ? log : null;
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	/* dup2() onto the same descriptor would keep close-on-exec set. */
	if (ready == READY_FD ? fcntl(ready, F_SETFD, 0) < 0 : dup2(ready, READY_FD) < 0)
		_exit(1);
	file_close_range(READY_FD + 1, INT_MAX);
	execv(subprogram_gpuq(), (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Allocated; NULL if out of memory. Called before the fork: nothing may be allocated between fork and exec. */
static const char **make_argv(const struct queue_choice *q, const char *const *options)
{
	size_t n = 0;
	while (options && options[n])
		n++;
	const char **argv = calloc(n + 13, sizeof(*argv));
	if (!argv)
		return NULL;
	const char *fixed[] = {
		"gpuq", "run", "--linger", LINGER, "--ready-fd", READY_FD_TEXT, "--jobs-file", q->journal_path};
	memcpy(argv, fixed, sizeof(fixed));
	size_t at = sizeof(fixed) / sizeof(*fixed);
	if (q->config_file) {
		argv[at++] = "--config";
		argv[at++] = q->config_file;
	}
	if (q->trust)
		argv[at++] = "--trust";
	if (debug_is_on())
		argv[at++] = "--verbose";
	for (size_t i = 0; i < n; i++)
		argv[at++] = options[i];
	return argv;
}

/* ---- Readiness --------------------------------------------------------------------------- */

void background_tell(int fd, const struct gd_error *err)
{
	char message[sizeof(err->message) + 16];
	if (fd < 0)
		return;
	/* The waiting process may have given up. */
	signal(SIGPIPE, SIG_IGN);
	int n = snprintf(message, sizeof(message), "%d %s", err ? err->code : 0, err ? err->message : "ready");
	(void)file_write_all(fd, message, (size_t)n + 1);
	close(fd);
}

/* The pipe carries at most one message, then end of file. */
static int wait_until_ready(int fd, int timeout_ms, const char *log, struct gd_error *err)
{
	char message[sizeof(err->message) + 16];
	size_t have = 0;
	uint64_t until = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	while (have < sizeof(message) - 1) {
		struct pollfd p = {fd, POLLIN, 0};
		int n = poll(&p, 1, clock_ms_until(until, clock_now_ns()));
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return 0; /* not ready in time; later errors are in the runner's log */
		ssize_t got = n < 0 ? -1 : read(fd, message + have, sizeof(message) - 1 - have);
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	message[have] = '\0';
	char *words;
	long code = strtol(message, &words, 10);
	if (have && code == 0)
		return 0;
	static const char prefix[] = "cannot start a runner: ";
	if (have && code < 0) {
		words++;
		words += strncmp(words, prefix, sizeof(prefix) - 1) == 0 ? sizeof(prefix) - 1 : 0;
		return error_set(err, (int)code, "%s%s; queued jobs wait for one", prefix, words);
	}
	return error_set(err, -ECHILD, "cannot start a runner: it ended before it was ready; see '%s'", log);
}

/* -1: the runner works without a log. */
static int open_log(int dir_fd)
{
	int fd = openat(dir_fd, "runner.log",
		O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	return fd < 0 ? -1 : file_above_stdio(fd);
}

/*
 * A runner works for all directories in which jobs are added to its queue, so it reads the gpuq.yaml next to the
 * journal, not that of the directory in which somebody happened to start it. A configuration that names the queue is
 * used for this queue in any directory.
 */
static bool keeps_directory(const struct queue_choice *q, const char *const *options)
{
	return options || q->config_file || q->source == QUEUE_SOURCE_CONFIGURATION;
}

/* `add` records other settings of ./gpuq.yaml with the job. */
void background_say_unused(const struct queue_choice *q)
{
	static const enum config_key keys[] = {CONFIG_GPUS, CONFIG_MIN_FREE_MEM, CONFIG_POLL_INTERVAL,
		CONFIG_LOG_ACCESS, CONFIG_MAX_LOG_SIZE, CONFIG_JOBS_PER_GPU, CONFIG_MAX_FAILURES, CONFIG_CPU_AFFINITY,
		CONFIG_SLURM};
	cleanup_(text_finish) struct text names = {0};
	cleanup_(freep) char *here = getcwd(NULL, 0);
	size_t length = (size_t)(strrchr(q->journal_path, '/') - q->journal_path);
	bool is_next = here && strlen(here) == length && strncmp(here, q->journal_path, length) == 0;
	if (is_next || keeps_directory(q, NULL) || !q->config_path || strcmp(q->config_path, CONFIG_HERE) != 0)
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (config_has(&q->config, keys[i]))
			text_appendf(&names, "%s%s", names.length ? ", " : "", config_rows[keys[i]].name);
	if (names.length && !text_error(&names))
		say("the runner does not use these settings of '" CONFIG_HERE
		    "', because its queue is in another directory: %s; set them in gpuq.yaml next to '%s', or in ~/.config/gpuq/config.yaml",
			text_string(&names), q->journal_path);
}

static int check_place(const char *result, struct gd_error *err)
{
	struct process_info info;
	for (pid_t pid = getppid(); pid > 1 && process_info(pid, &info) == 0; pid = info.ppid)
		if (strcmp(info.name, WARDEN_NAME) == 0)
			return error_set(err, -EPERM,
				"%scannot start a runner inside a worker of a pool, of 'gpuq launch' or of 'gpuq map', because it would end with the worker; start one outside, with 'gpuq run --keep --background'",
				result);
	return 0;
}

bool background_has_runner(int dir_fd)
{
	pid_t holder = 0;
	return lock_holder_at(dir_fd, "runner.lock", &holder) == 0 && holder != 0;
}

int background_check(const struct queue_choice *q, int dir_fd, struct gd_error *err)
{
	if (background_has_runner(dir_fd))
		return 0;
	if (q->config_file && named_file_is_passed(q->config_file))
		return error_set(err, -EINVAL,
			"nothing was changed: cannot start a runner with --config '%s', which only this command can read; name a file",
			q->config_file);
	return check_place("nothing was changed: ", err);
}

int background_start(
	const struct queue_choice *q, int dir_fd, const char *const *options, int timeout_ms, struct gd_error *err)
{
	cleanup_(freep) char *log = NULL;
	cleanup_(freep) const char **argv = make_argv(q, options);
	cleanup_(closep) int ready = -1;
	cleanup_(closep) int directory = -1;
	int ends[2];
	if (background_has_runner(dir_fd))
		return 0;
	int r = check_place("", err);
	if (r < 0)
		return r;
	if (!argv || asprintf(&log, "%s.d/runner.log", q->journal_path) < 0)
		return error_set(err, -ENOMEM, "cannot start a runner: out of memory");
	if (!keeps_directory(q, options)) {
		directory = openat(dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (directory < 0)
			return error_set(err, -errno, "cannot start a runner: %s", error_words(errno));
	}
	debug_say("starting a runner in the background; its decisions are in '%s'", log);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, -errno, "cannot start a runner: %s", error_words(errno));
	ready = ends[0];
	cleanup_(closep) int log_fd = open_log(dir_fd);
	pid_t pid = fork();
	if (pid == 0) {
		pid_t again = fork();
		if (again == 0)
			become_runner(argv, directory, log_fd, ends[1]);
		_exit(again < 0);
	}
	close(ends[1]);
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		return error_set(err, -EAGAIN, "cannot start a runner: fork failed; start one with 'gpuq run --keep'");
	return wait_until_ready(ready, timeout_ms, log, err);
}
