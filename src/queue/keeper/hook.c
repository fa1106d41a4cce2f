/* SPDX-License-Identifier: MIT */
#include "queue/keeper/hook.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "queue/journal/job_json.h"

/* It may take so long. */
#define HOOK_MS       60000
#define KILL_AGAIN_MS 50
/* And so long to die. */
#define STUCK_MS 10000

struct search {
	struct jobs *jobs;
	char member[32]; /* ,"id":7 */
	size_t size;
};

/* Inside a string the quotes would be escaped, so it is the member; a line too much would not matter. */
static int apply_if_its(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct search *s = context;
	const char *p = memmem(line, size, s->member, s->size);
	char next = p && p + s->size < line + size ? p[s->size] : '\0';
	return next == ',' || next == '}' ? jobs_apply(s->jobs, line_no, line, size) : 0;
}

static int read_lines(const struct journal *j, journal_line_fn *fn, void *context, struct jobs *js)
{
	struct journal_reader reader;
	int r = journal_reader_init_at(&reader, j);
	if (r < 0)
		return r;
	while ((r = journal_reader_read(&reader, fn, context)) == 1)
		jobs_reset(js);
	journal_reader_finish(&reader);
	return r;
}

int hook_read_job(const struct journal *j, uint64_t id, struct jobs *ret)
{
	struct jobs js;
	struct search s = {.jobs = &js};
	jobs_init(&js);
	s.size = (size_t)snprintf(s.member, sizeof(s.member), ",\"id\":%" PRIu64, id);
	int r = read_lines(j, apply_if_its, &s, &js);
	/* Written by somebody else, with spaces or without a number: then only all of it tells. */
	if (r == 0 && !jobs_find(&js, id)) {
		jobs_reset(&js);
		r = read_lines(j, jobs_apply, &js, &js);
	}
	if (r == 0 && !jobs_find(&js, id))
		r = -ENOENT;
	if (r < 0)
		jobs_finish(&js);
	else
		*ret = js;
	return r;
}

int hook_describe_job(struct job *job, struct text *ret)
{
	unsigned char state = job->state;
	if (!job_is_final(job) && job->attempts)
		job->state = job->attempts->state;
	job_json_write(ret, job);
	job->state = state;
	text_append_char(ret, '\n');
	return text_error(ret);
}

int hook_describe(struct jobs *js, uint64_t id, const struct text *end_line, struct text *ret)
{
	int r = jobs_apply(js, 0, end_line->data, end_line->length - 1);
	struct job *job = jobs_find(js, id);
	if (r < 0 || !job || !job->attempts)
		return r < 0 ? r : -ENOENT;
	/* Final it may be otherwise than the attempt: one that failed while it was being cancelled is cancelled. */
	return hook_describe_job(job, ret);
}

/* A file in memory, not a pipe: a hook need not read, and must not make us wait by not reading. */
static int open_input(const struct text *input)
{
	cleanup_(closep) int fd = memfd_create("gpuq-job", MFD_CLOEXEC);
	if (fd < 0 || file_write_all(fd, input->data, input->length) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return take_fd(&fd);
}

_Noreturn static void execute(const struct attempt *a, int input_fd)
{
	attempt_reset_signals();
	setsid();
	int r = attempt_enter_directory(a);
	if (r == -ENOTUNIQ)
		r = chdir("/");
	if (dup2(input_fd, STDIN_FILENO) >= 0 && (r == 0 || r == -ENOENT))
		execle("/bin/sh", "sh", "-c", a->on_finish, (char *)NULL, a->envp);
	_exit(127);
}

int hook_run(const struct attempt *a, const struct text *input, int signal_fd)
{
	cleanup_(closep) int input_fd = open_input(input);
	if (input_fd < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		execute(a, input_fd);
	uint64_t until = clock_now_ns() + HOOK_MS * NS_PER_MS;
	for (;;) {
		pid_t done = waitpid(-1, NULL, WNOHANG);
		uint64_t now = clock_now_ns();
		if (done < 0)
			return 0;
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
			;
	}
}
