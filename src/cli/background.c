/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/process.h"
#include "cli/queue_cli.h"

/* Leaves when the queue has been empty for so long. */
#define LINGER "60"

/* In the grandchild: nothing of the caller is kept, so that `id=$(gpuq add …)` and ssh return. */
_Noreturn static void become_runner(const char *const *argv, const char *log)
{
	sigset_t none;
	setsid();
	process_reset_signals();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDWR);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out >= 0 ? out : null, 1) < 0 || dup2(out >= 0 ? out : null, 2) < 0)
		_exit(1);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	syscall(SYS_close_range, 3U, ~0U, 0U);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* In memory to be freed; NULL where there is none. Before the fork: between it and exec nothing is allocated. */
static const char **make_argv(const struct queue_choice *q, const char *const *options)
{
	size_t n = 0;
	while (options && options[n])
		n++;
	const char **argv = calloc(n + 10, sizeof(*argv));
	if (!argv)
		return NULL;
	const char *fixed[] = {"gpuq", "run", "--linger", LINGER, "--jobs-file", q->journal_path};
	memcpy(argv, fixed, sizeof(fixed));
	size_t at = sizeof(fixed) / sizeof(*fixed);
	if (q->config_file) {
		argv[at++] = "--config";
		argv[at++] = q->config_file;
	}
	if (q->trust)
		argv[at++] = "--trust";
	for (size_t i = 0; i < n; i++)
		argv[at++] = options[i];
	return argv;
}

int cli_start_runner(const struct queue_choice *q, const char *const *options, struct gd_error *err)
{
	cleanup_(freep) char *log = NULL;
	cleanup_(freep) const char **argv = make_argv(q, options);
	if (!argv || asprintf(&log, "%s.d/runner.log", q->journal_path) < 0)
		return error_set(err, -ENOMEM, "starting a runner: out of memory");
	pid_t pid = fork();
	if (pid == 0) {
		pid_t again = fork();
		if (again == 0)
			become_runner(argv, log);
		_exit(again < 0);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		return error_set(err, -EAGAIN, "starting a runner: fork failed; start one with 'gpuq run --keep'");
	return 0;
}
