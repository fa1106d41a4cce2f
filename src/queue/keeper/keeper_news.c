/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_news.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* All have this length, so that each is written over the one before in one piece. */
#define LINE_BYTES 128

int keeper_news_write(int dir_fd, const char *keeper, const struct keeper_news *news)
{
	char name[80], line[LINE_BYTES];
	/* The name comes from a journal, and must not lead out of the folder. */
	if (strchr(keeper, '/') || strlen(keeper) > 64)
		return -EINVAL;
	snprintf(name, sizeof(name), "keepers/%s", keeper);
	cleanup_(closep) int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int n = snprintf(line, sizeof(line), "job %" PRIu64 " attempt %u peak_mem_mb %" PRId64 " full %d lost %d",
		news->id, news->attempt, news->peak_mem_mb, news->gpu_full, news->gpu_lost);
	memset(line + n, ' ', sizeof(line) - (size_t)n);
	line[LINE_BYTES - 1] = '\n';
	ssize_t written = pwrite(fd, line, sizeof(line), 0);
	return written == LINE_BYTES ? 0 : written < 0 ? -errno : -ENOSPC;
}

int keeper_news_read(int fd, struct keeper_news *ret)
{
	char line[LINE_BYTES + 1];
	struct keeper_news news;
	int full, lost;
	if (pread(fd, line, LINE_BYTES, 0) != LINE_BYTES)
		return -ENOENT;
	line[LINE_BYTES] = '\0';
	if (sscanf(line, "job %" SCNu64 " attempt %" SCNu32 " peak_mem_mb %" SCNd64 " full %d lost %d", &news.id,
		    &news.attempt, &news.peak_mem_mb, &full, &lost) != 5)
		return -EBADMSG;
	news.gpu_full = full;
	news.gpu_lost = lost;
	*ret = news;
	return 0;
}
