/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"

/* Enough for more than sixty-four UUIDs. */
#define LONGEST_LINE 8192

int runner_rules_write(int fd, const struct machine *here, const struct runner_rules *rules)
{
	cleanup_(text_finish) struct text t = {0};
	text_appendf(&t, "pid %d host %s", (int)getpid(), here->host);
	if (rules)
		text_appendf(&t,
			" min_free_mem_mb %" PRId64 " jobs_per_gpu %d poll_interval_ms %" PRId64 " machine %s gpus %s",
			rules->min_free_mem_mb, rules->jobs_per_gpu, rules->poll_interval_ms, rules->machine,
			rules->gpus ? rules->gpus : RULES_NO_GPUS);
	text_append_char(&t, '\n');
	if (text_error(&t))
		return -ENOMEM;
	ssize_t n = pwrite(fd, t.data, t.length, 0);
	if (n != (ssize_t)t.length)
		return n < 0 ? -errno : -ENOSPC;
	return ftruncate(fd, n) < 0 ? -errno : 0;
}

/* The first line. In a folder of another user the file can be a link or a device. */
static int read_line(int dir_fd, char ret[LONGEST_LINE])
{
	cleanup_(closep) int fd = file_open_regular(dir_fd, "runner.lock", O_NOFOLLOW);
	ssize_t n = fd < 0 ? fd : file_read_full(fd, ret, LONGEST_LINE);
	if (n < 0 || n == LONGEST_LINE)
		return n < 0 ? (int)n : -EFBIG;
	ret[n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

int runner_rules_read(int dir_fd, struct runner_rules *ret)
{
	char line[LONGEST_LINE];
	struct runner_rules r = {0};
	int at = 0;
	if (dir_fd < 0 || read_line(dir_fd, line) < 0)
		return -ENOENT;
	/* A new runner holds the lock and has not written its line yet. */
	if (line[0] == '\0')
		return -EAGAIN;
	int got = sscanf(line,
		"pid %*d host %64s min_free_mem_mb %" SCNd64 " jobs_per_gpu %d poll_interval_ms %" SCNd64
		" machine %47s gpus %n",
		r.host, &r.min_free_mem_mb, &r.jobs_per_gpu, &r.poll_interval_ms, r.machine, &at);
	if (got < 5 || at == 0)
		return got == 1 ? -EAGAIN : -ENOENT;
	r.gpus = strdup(line + at);
	if (!r.gpus)
		return -ENOMEM;
	*ret = r;
	return 0;
}

void runner_rules_finish(struct runner_rules *rules)
{
	free((void *)(uintptr_t)rules->gpus);
	*rules = (struct runner_rules){0};
}
