/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/text.h"

/* After the line of keeper_socket.c. All lines have the same length, so that each write replaces a whole line. */
#define OFFSET     128
#define LINE_BYTES 32
/* The GPUs follow on their own line. */
#define GPUS_WORD  "on GPUs"
#define GPUS_BYTES (sizeof(GPUS_WORD) + KEEPER_JOB_GPUS * 12)

static int write_text(int lock_fd, const struct text *t)
{
	if (text_error(t))
		return -ENOMEM;
	ssize_t n = pwrite(lock_fd, t->data, t->length, OFFSET);
	return n == (ssize_t)t->length ? 0 : n < 0 ? -errno : -ENOSPC;
}

int keeper_job_write(int lock_fd, uint64_t id, const int *gpus, size_t num_gpus)
{
	cleanup_(text_finish) struct text t = {0};
	text_appendf(&t, "has job %-23" PRIu64 "\n" GPUS_WORD, id);
	for (size_t i = 0; i < num_gpus && i < KEEPER_JOB_GPUS; i++)
		text_appendf(&t, " %d", gpus[i]);
	text_append_string(&t, "\n");
	return write_text(lock_fd, &t);
}

int keeper_job_clear(int lock_fd)
{
	static const char line[] = "has job 0                      \n";
	_Static_assert(sizeof(line) == LINE_BYTES + 1, "all lines have the same length");
	ssize_t n = pwrite(lock_fd, line, LINE_BYTES, OFFSET);
	return n == LINE_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
}

#define INTERRUPTED " interrupted"

int keeper_job_interrupt(int lock_fd, uint64_t id)
{
	char words[LINE_BYTES], line[LINE_BYTES + 1];
	snprintf(words, sizeof(words), "has job %" PRIu64 INTERRUPTED, id);
	snprintf(line, sizeof(line), "%-*s\n", LINE_BYTES - 1, words);
	ssize_t n = pwrite(lock_fd, line, LINE_BYTES, OFFSET);
	return n == LINE_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
}

bool keeper_job_was_interrupted(int dir_fd, const char *lock_name, uint64_t id)
{
	char line[LINE_BYTES + 1];
	uint64_t found;
	cleanup_(closep) int fd = file_open_regular(dir_fd, lock_name, O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : pread(fd, line, LINE_BYTES, OFFSET);
	line[n > 0 ? n : 0] = '\0';
	return sscanf(line, "has job %" SCNu64, &found) == 1 && found == id && strstr(line, INTERRUPTED);
}

/* Parses the numbers after GPUS_WORD. Keepers of earlier builds did not write them. */
static void parse_gpus(const char *text, struct keeper_job *job)
{
	char *end;
	if (strncmp(text, GPUS_WORD, sizeof(GPUS_WORD) - 1) != 0)
		return;
	for (text += sizeof(GPUS_WORD) - 1; *text == ' ' && job->num_gpus < KEEPER_JOB_GPUS; text = end) {
		long number = strtol(text, &end, 10);
		if (end == text || number < 0 || number > INT_MAX)
			return;
		job->gpus[job->num_gpus++] = (int)number;
	}
}

/* False: the file names no job, or its lock is free. */
static bool read_job(int fd, struct keeper_job *job)
{
	char text[LINE_BYTES + GPUS_BYTES + 1];
	ssize_t n = pread(fd, text, sizeof(text) - 1, OFFSET);
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "has job %" SCNu64, &job->id) != 1 || job->id == 0)
		return false;
	if (n > LINE_BYTES)
		parse_gpus(text + LINE_BYTES, job);
	if (lock_holder(fd, &job->holder) < 0)
		job->holder = -1;
	return job->holder != 0;
}

int keeper_jobs_each(int dir_fd, keeper_job_fn *fn, void *context)
{
	int fd = openat(dir_fd, "keepers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		int r = -errno;
		closep(&fd);
		return r;
	}
	for (struct dirent *e; (e = readdir(d));) {
		struct keeper_job job = {.keeper = e->d_name};
		cleanup_(closep) int keeper =
			e->d_name[0] == '.' ? -1 : file_open_regular(dirfd(d), e->d_name, O_NOFOLLOW);
		if (keeper >= 0 && read_job(keeper, &job))
			fn(context, &job);
	}
	closedir(d);
	return 0;
}

struct search {
	uint64_t id;
	pid_t holder;
};

static void compare_job(void *context, const struct keeper_job *job)
{
	struct search *s = context;
	if (job->id == s->id)
		s->holder = job->holder;
}

pid_t keeper_job_holder(int dir_fd, uint64_t id)
{
	struct search s = {.id = id};
	return keeper_jobs_each(dir_fd, compare_job, &s) < 0 ? -1 : s.holder;
}
