/* SPDX-License-Identifier: MIT */
/* The directory of a job: found, checked and entered. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/journal.h"
#include "queue/journal/moved_path.h"
#include "queue/keeper/attempt.h"

/* Allowed difference between the clocks of this machine and a file server. */
#define CLOCK_SKEW_MS 1000

/* Jobs of older versions have no inode, and cwd_own only if no other user could write the directory. */
static bool must_be_checked(const struct keeper_order *o)
{
	return o->cwd_own || o->cwd_ino;
}

/* File systems give the number of a removed inode to a new one. */
static bool is_younger(int fd, int64_t added_ms)
{
	return added_ms > 0 && file_birth_ns(fd) / NS_PER_MS > (uint64_t)(added_ms + CLOCK_SKEW_MS);
}

/*
 * Whether fd is the directory in which the job was added. The device number of a network file
 * system can change on a remount, and differs between the nodes of a cluster. With another device
 * number, the same inode number suffices unless fd is the root of a file system: a rename can only
 * put a directory of the same file system there, in which the number is unique. Btrfs has many roots
 * that can be renamed.
 */
static bool is_same_directory(int fd, const struct keeper_order *o)
{
	struct stat st, above;
	if (o->cwd_ino == 0)
		return true; /* an older version added the job */
	if (fstat(fd, &st) < 0 || st.st_ino != o->cwd_ino || is_younger(fd, o->added_ms))
		return false;
	return st.st_dev == o->cwd_dev || (fstatat(fd, "..", &above, 0) == 0 && above.st_dev == st.st_dev);
}

/* Others may write a directory that they could write, or that was theirs, when the job was added. */
static bool is_acceptable(int fd, const struct keeper_order *o)
{
	return !o->cwd_own || !trust_objection(fd);
}

void attempt_find_directory(struct attempt *a, struct attempt_cache *cache)
{
	cleanup_(closep) int fd = -1;
	if (!*a->cwd || !must_be_checked(&a->order))
		return;
	int known = known_directory_find(&cache->cwd, a->cwd);
	if (known < 0 && trust_open_directory(a->cwd, false, &fd, NULL) == 0) {
		known_directory_keep(&cache->cwd, a->cwd, fd);
		known = known_directory_find(&cache->cwd, a->cwd);
	}
	bool usable = known >= 0 && is_acceptable(known, &a->order) && is_same_directory(known, &a->order);
	a->cwd_fd = usable ? known : -1;
}

/*
 * Whether only the user could have put this directory in the place of the one in which the job was added. The
 * directories above it are trusted or sticky. In a sticky one, others can create a directory, and move one there that
 * they can write.
 */
static bool is_replaced_by_user(int fd)
{
	struct stat st;
	cleanup_(closep) int above = -1;
	if (fstat(fd, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0))
		return false;
	if (!trust_objection(fd))
		return true;
	above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return above >= 0 && !trust_objection(above);
}

/*
 * The directory of the queue was renamed, and the job's directory is inside of it: tries each trailing part of the
 * path there.
 * Only the directory in which the job was added is accepted. *ret_length: of the part of the path that was the queue's
 * directory.
 */
static int open_moved(const struct attempt *a, int *ret_fd, size_t *ret_length)
{
	for (const char *p = a->cwd; a->queue_fd >= 0 && a->order.cwd_ino && p; p = *p ? p + strcspn(p, "/") : NULL) {
		cleanup_(closep) int fd = -1;
		p += strspn(p, "/");
		if (trust_open_directory_at(a->queue_fd, *p ? p : ".", false, &fd, NULL) == 0 &&
			is_same_directory(fd, &a->order)) {
			*ret_fd = take_fd(&fd);
			*ret_length = (size_t)(p - a->cwd) - (*p && p > a->cwd);
			return 0;
		}
	}
	return -ENOENT;
}

/* Opens the job's directory by its path, or where it has moved to. *ret_length: see open_moved(); 0: not moved. */
static int open_found(const struct attempt *a, int *ret_fd, size_t *ret_length, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	*ret_length = 0;
	int r = trust_open_directory(a->cwd, false, &fd, err);
	/* Another user may have put something in the place of a directory that was renamed. */
	bool is_elsewhere = r == -ENOENT || r == -ENOTDIR || r == -EPERM || r == -EACCES ||
			    (r == 0 && !is_same_directory(fd, &a->order));
	if (is_elsewhere && open_moved(a, ret_fd, ret_length) == 0)
		return 0;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int attempt_follow_log_dir(struct attempt *a, const struct journal *j)
{
	cleanup_(closep) int fd = -1;
	size_t length;
	if (!*a->cwd || a->cwd_fd >= 0 || !a->order.cwd_ino || open_found(a, &fd, &length, NULL) < 0 || length == 0)
		return 0;
	cleanup_(freep) char *old = strndup(a->cwd, length);
	int r = old ? moved_path_find(a->log_dir, old, j->parent_path, &a->moved_log_dir) : -ENOMEM;
	if (r > 0)
		a->log_dir = a->moved_log_dir;
	return r < 0 ? r : 0;
}

static int open_checked(const struct attempt *a, int *ret_fd)
{
	struct gd_error err;
	cleanup_(closep) int fd = -1;
	size_t length;
	int r = open_found(a, &fd, &length, &err);
	/* The user may replace the directory, if no other user can. */
	if (r == 0 && !is_same_directory(fd, &a->order)) {
		close_fd(&fd);
		r = trust_open_directory(a->cwd, true, &fd, &err);
		if (r == 0 && !is_replaced_by_user(fd))
			r = -EPERM;
	}
	if (r == -EPERM || (r >= 0 && !is_acceptable(fd, &a->order)))
		return -ENOTUNIQ;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* Checks and enters the same directory: both use its descriptor. */
int attempt_enter_directory(const struct attempt *a)
{
	cleanup_(closep) int fd = -1;
	if (!*a->cwd || a->front)
		return 0;
	if (a->cwd_fd >= 0 && fchdir(a->cwd_fd) == 0)
		return 0;
	if (!must_be_checked(&a->order))
		return chdir(a->cwd) < 0 ? -errno : 0;
	int r = open_checked(a, &fd);
	if (r < 0)
		return r;
	return fchdir(fd) < 0 ? -errno : 0;
}
