/* SPDX-License-Identifier: MIT */
#include "queue/keeper/hook_log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/file.h"
#include "base/text.h"

#define LARGEST ((off_t)1 << 20)

static int open_file(int dir_fd, struct stat *ret)
{
	cleanup_(closep) int fd = openat(
		dir_fd, HOOK_LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return -1;
	return take_fd(&fd);
}

int hook_log_open(int dir_fd, const struct attempt *a)
{
	struct stat st;
	char now[DATE_TEXT];
	cleanup_(text_finish) struct text line = {0};
	cleanup_(closep) int fd = open_file(dir_fd, &st);
	/* Another keeper may do this at the same time: then the few lines of the first one end up in hooks.log.1. */
	if (fd >= 0 && st.st_size > LARGEST && renameat(dir_fd, HOOK_LOG, dir_fd, HOOK_LOG ".1") == 0) {
		close(fd);
		fd = open_file(dir_fd, &st);
	}
	if (fd < 0)
		return -1;
	date_format(date_now_ms(), now);
	text_appendf(&line, "--- %s job %" PRIu64 ", attempt %" PRIu32 ": %s hook\n", now, a->order.id,
		a->order.attempt, a->order.hook_idle ? "idle" : "finish");
	(void)file_write_all(fd, text_string(&line), line.length);
	return take_fd(&fd);
}
