/* SPDX-License-Identifier: MIT */
#include "launch/being_written.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/file.h"

#define QUIET_MS 2000

static bool has_changed_just_now(const struct stat *st)
{
	int64_t age_ms = date_now_ms() - file_mtime_ms(st);
	return age_ms >= 0 && age_ms < QUIET_MS; /* ignore a time in the future */
}

/*
 * A read lease is refused (EAGAIN) while the file is open for writing. The lease is released at once. A writer that
 * opens the file in between waits until then, and the kernel signals us: use a signal that is ignored by default.
 */
bool being_written(int fd, const struct stat *st)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cleanup_(closep) int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (file < 0 || fcntl(file, F_SETSIG, SIGURG) < 0)
		return has_changed_just_now(st);
	if (fcntl(file, F_SETLEASE, F_RDLCK) < 0)
		return errno == EAGAIN || has_changed_just_now(st);
	(void)fcntl(file, F_SETLEASE, F_UNLCK); /* closing releases it, too */
	return false;
}
