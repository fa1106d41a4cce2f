/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"

/* ---- The lock ------------------------------------------------------------------ */

int journal_lock_words(const struct journal *j, int code, struct gd_error *err)
{
	if (code == -ENOLCK || code == -ENOTSUP || code == -EINVAL || code == -ENOSYS)
		return error_set(err, code,
			"locking journal '%s': this file system has no locks; put the journal on another one", j->path);
	return error_set(err, code, "locking journal '%s': %s", j->path, error_words(code));
}

/* If FILE.d was removed, other processes lock another file than this one: open it again. */
static int take_append_lock(struct journal *j, struct gd_error *err)
{
	for (;;) {
		struct stat st;
		int r = lock_take(j->lock_fd);
		if (r < 0)
			return journal_lock_words(j, r, err);
		r = fstat(j->lock_fd, &st) < 0 ? -errno : 0;
		if (r == 0 && st.st_nlink > 0)
			return 0;
		if (r < 0)
			error_set(err, r, "locking journal '%s': %s", j->path, error_words(r));
		else
			r = journal_open_folder(j, err);
		if (r < 0) {
			lock_release(j->lock_fd); /* other processes that have the same file wait for it */
			return r;
		}
	}
}

int journal_absence_limit_ms(const struct journal *j)
{
	struct stat lock, st;
	if (fstat(j->lock_fd, &lock) < 0 || stat(j->parent_path, &st) == 0 || errno != ENOENT)
		return 0;
	return lock.st_nlink > 0 ? JOURNAL_RENAMED_MS : JOURNAL_REMOVED_MS;
}

/*
 * What was renamed away is not written to until it is back: working directories and logs of jobs are known by their
 * paths, and what is there now may be somebody else's. A directory that was removed and made again is opened anew.
 */
static int check_parent(const struct journal *j, struct gd_error *err)
{
	struct stat there, mine;
	if (journal_parent_is_removed(j))
		return 0;
	if (stat(j->parent_path, &there) < 0 || fstat(j->parent_fd, &mine) < 0)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	if (there.st_dev == mine.st_dev && there.st_ino == mine.st_ino)
		return 0;
	return error_set(
		err, -EPERM, "refusing to use '%s': another directory was put in the place of its own", j->path);
}

static int check_file(struct journal *j, struct stat *ret, struct gd_error *err)
{
	int r = check_parent(j, err);
	if (r < 0)
		return r;
	if (fstatat(j->parent_fd, j->name, ret, 0) < 0 && errno != ENOENT)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	else if (ret->st_nlink > 0 && ret->st_dev == j->dev && ret->st_ino == j->ino)
		return 0;
	r = journal_open_file(j, err);
	if (r < 0)
		return r;
	if (fstat(j->fd, ret) < 0)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	return 0;
}

int journal_lock(struct journal *j, struct gd_error *err)
{
	int r = take_append_lock(j, err);
	if (r < 0)
		return r;
	j->locked = true;
	j->dirty = false;
	struct stat st = {0};
	r = check_file(j, &st, err);
	struct journal_counters c;
	bool have = r == 0 && journal_counters_read(j, &c);
	if (r == 0) {
		bool match = have && c.size > 0 && journal_counters_match(j, &c, st.st_size);
		if (!match && !j->recognized) {
			r = journal_refuse_unrecognized(j, err);
		} else if (match && c.size == (uint64_t)st.st_size) {
			j->size = st.st_size;
			j->next_id = c.next_id;
			j->fence = c.fence;
		} else {
			r = journal_recover(j, st.st_size, have ? &c : NULL, err);
		}
	}
	if (r < 0) {
		j->dirty = false;
		journal_unlock(j);
	}
	return r;
}

void journal_unlock(struct journal *j)
{
	if (!j->locked)
		return;
	/* A failure does no harm: counters that do not match the file are rebuilt. */
	if (j->dirty)
		(void)journal_counters_write(j);
	j->locked = false;
	lock_release(j->lock_fd);
}

uint64_t journal_take_ids(struct journal *j, uint64_t n)
{
	uint64_t first = j->next_id;
	j->next_id += n;
	j->dirty = true;
	return first;
}

int journal_raise_fence(struct journal *j, struct gd_error *err)
{
	j->fence++;
	/* Written now: after a crash before the unlock, earlier starts must not be valid. */
	int r = journal_counters_write(j);
	if (r < 0)
		return error_set(err, r, "writing '%s/append.lock': %s", j->dir_path, error_words(r));
	return 0;
}

/* ---- Appending ------------------------------------------------------------------ */

static int append_failed(
	struct journal *j, int code, const char *lines, size_t done, size_t *ret_written, struct gd_error *err)
{
	const char *newline = done ? memrchr(lines, '\n', done) : NULL;
	size_t complete = newline ? (size_t)(newline - lines) + 1 : 0;
	/* If this truncation fails too, the next append does it, because the counters do not match. */
	if (complete == done || ftruncate(j->fd, j->size + (off_t)complete) == 0) {
		j->size += (off_t)complete;
		j->dirty = true;
	} else {
		j->dirty = false;
	}
	if (ret_written)
		*ret_written = complete;
	return error_set(err, code, "writing journal '%s': %s%s", j->path, error_words(code),
		code == -ENOSPC || code == -EDQUOT ? "; make room and try again" : "");
}

int journal_append(struct journal *j, const void *lines, size_t size, size_t *ret_written, struct gd_error *err)
{
	const char *p = lines;
	size_t done = 0;
	while (done < size) {
		ssize_t n = write(j->fd, p + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return append_failed(j, n < 0 ? -errno : -ENOSPC, p, done, ret_written, err);
		done += (size_t)n;
	}
	j->size += (off_t)size;
	j->dirty = true;
	if (ret_written)
		*ret_written = size;
	return 0;
}

int journal_append_line(struct journal *j, const void *line, size_t size, struct gd_error *err)
{
	int r = journal_lock(j, err);
	if (r < 0)
		return r;
	r = journal_append(j, line, size, NULL, err);
	journal_unlock(j);
	return r;
}

static int sync_directory(const struct journal *j)
{
	cleanup_(closep) int fd = openat(j->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot sync a directory and fail with EINVAL. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int journal_sync(struct journal *j, struct gd_error *err)
{
	int r = fdatasync(j->fd) < 0 ? -errno : 0;
	if (r == 0 && j->created)
		r = sync_directory(j);
	if (r < 0)
		return error_set(err, r, "syncing journal '%s': %s", j->path, error_words(r));
	j->created = false;
	return 0;
}

int journal_replace(struct journal *j, const char *draft, struct gd_error *err)
{
	/* Before the rename: starts that were decided with the old file are void from here on. */
	int r = journal_raise_fence(j, err);
	if (r < 0)
		return r;
	if (renameat(j->dir_fd, draft, j->parent_fd, j->name) < 0)
		return error_set(err, -errno, "replacing journal '%s': %s", j->path, error_words(errno));
	struct stat st;
	r = journal_open_file(j, err);
	if (r == 0 && fstat(j->fd, &st) < 0)
		r = error_set(err, -errno, "replacing journal '%s': %s", j->path, error_words(errno));
	if (r < 0)
		return r;
	j->size = st.st_size;
	j->dirty = true;
	r = sync_directory(j);
	return r < 0 ? error_set(err, r, "syncing the directory of '%s': %s", j->path, error_words(r)) : 0;
}
