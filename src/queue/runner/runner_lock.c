/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "queue/journal/journal.h"
#include "queue/runner/runner_rules.h"

static int blocked(const struct journal *j, int fd, struct gd_error *err)
{
	char reader[LOCK_WORDS_ROOM];
	lock_describe_reader(fd, reader);
	return error_set(err, LOCK_BLOCKED,
		"cannot start a runner: %s has a lock on '%s/runner.lock'; end that process or, if no runner is "
		"active, remove the file",
		reader, j->dir_path);
}

/* Whether the locked file was removed: another runner can then lock a new one. */
static bool is_removed(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int runner_lock_take(
	const struct journal *j, const struct machine *here, int *ret_fd, pid_t *ret_holder, struct gd_error *err)
{
	for (;;) {
		cleanup_(closep) int fd =
			openat(j->dir_fd, "runner.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return journal_refuse_part(j, j->dir_fd, "runner.lock", -errno, err);
		int e = lock_take_free(fd);
		if (e == -EAGAIN && lock_holder(fd, ret_holder) == 0 && *ret_holder == 0)
			continue; /* the holder has just exited */
		if (e == LOCK_BLOCKED)
			return blocked(j, fd, err);
		if (e < 0)
			return e == -EAGAIN ? -EBUSY : journal_lock_words(j, e, err);
		if (is_removed(fd))
			continue;
		/* Information for users; the lock works without it. */
		(void)runner_rules_write(fd, here, NULL);
		*ret_fd = take_fd(&fd);
		return 0;
	}
}

bool runner_lock_keep(const struct journal *j, const struct machine *here, int fd)
{
	struct stat mine, there;
	if (fstat(fd, &mine) < 0 || fstatat(j->dir_fd, "runner.lock", &there, AT_SYMLINK_NOFOLLOW) < 0 ||
		mine.st_dev != there.st_dev || mine.st_ino != there.st_ino)
		return false;
	(void)runner_rules_write(fd, here, NULL);
	return true;
}
