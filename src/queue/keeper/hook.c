/* SPDX-License-Identifier: MIT */
#include "queue/keeper/hook.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "queue/journal/job_json.h"

/* Time limit of a hook. */
#define HOOK_MS       60000
#define KILL_AGAIN_MS 50
/* Time limit for its processes to die. */
#define STUCK_MS 10000

int hook_describe(const struct job *job, const struct due_hook *h, struct text *ret)
{
	struct job then = *job;
	/* Skip attempts that began later. */
	while (then.num_attempts > h->num_attempts && then.attempts) {
		then.attempts = then.attempts->earlier;
		then.num_attempts--;
	}
	then.state = h->state;
	then.reason = h->reason;
	job_json_write(ret, &then);
	text_append_char(ret, '\n');
	return text_error(ret);
}

int hook_describe_lines(const struct text *lines, uint64_t id, struct text *ret)
{
	struct jobs js;
	int r = 0;
	jobs_init(&js);
	for (const char *p = lines->data, *end = p + lines->length; r == 0 && p < end;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t size = (size_t)((newline ? newline : end) - p);
		r = jobs_apply(&js, 0, p, size);
		p += size + 1;
	}
	const struct job *job = jobs_find(&js, id);
	if (r == 0)
		r = job && js.hooks ? hook_describe(job, js.hooks, ret) : -ENOENT;
	jobs_finish(&js);
	return r;
}

/* A file in memory, not a pipe: a hook need not read its input, and must not block us. */
static int open_input(const struct text *input)
{
	cleanup_(closep) int fd = memfd_create("gpuq-job", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, input->data, input->length);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : take_fd(&fd);
}

_Noreturn static void execute(struct attempt *a, unsigned try_number, int input_fd, int log_fd, pid_t parent)
{
	char try_text[sizeof(HOOK_TRY) + 16];
	/* If the keeper is killed, another keeper runs the hook again. The two must not run at the same time. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	attempt_reset_signals();
	setsid();
	/* No other user can prevent a hook by making the directory of its job unusable. */
	int r = attempt_enter_directory(a);
	if (r < 0)
		r = chdir("/");
	attempt_enter_umask(a->envp);
	snprintf(try_text, sizeof(try_text), HOOK_TRY "=%u", try_number);
	attempt_set_variable(a, try_text);
	attempt_set_variable(a, a->order.hook_idle ? HOOK_EVENT "=idle" : HOOK_EVENT "=finish");
	if (log_fd >= 0) {
		(void)dup2(log_fd, STDOUT_FILENO);
		(void)dup2(log_fd, STDERR_FILENO);
	}
	if (dup2(input_fd, STDIN_FILENO) >= 0 && r == 0)
		execle("/bin/sh", "sh", "-c", a->on_finish, (char *)NULL, a->envp);
	_exit(127);
}

int hook_run(struct attempt *a, unsigned try_number, const struct text *input, int log_fd, int signal_fd,
	int *ret_status, bool *interrupted)
{
	cleanup_(closep) int input_fd = open_input(input);
	if (input_fd < 0)
		return input_fd;
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		execute(a, try_number, input_fd, log_fd, parent);
	uint64_t until = clock_now_ns() + HOOK_MS * NS_PER_MS;
	for (;;) {
		int status;
		pid_t done = process_reap(&status);
		uint64_t now = clock_now_ns();
		if (done < 0)
			return 0;
		if (done == pid)
			*ret_status = status;
		if (done == pid && now < until)
			until = now;
		if (done > 0)
			continue;
		if (now >= until + STUCK_MS * NS_PER_MS)
			return -ETIMEDOUT;
		if (now >= until)
			process_signal_descendants(getpid(), SIGKILL);
		struct pollfd p = {signal_fd, POLLIN, 0};
		poll(&p, 1, KILL_AGAIN_MS);
		struct signalfd_siginfo si;
		while (read(signal_fd, &si, sizeof(si)) > 0)
			*interrupted = *interrupted || si.ssi_signo == SIGTERM;
	}
}
