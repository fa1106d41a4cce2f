/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"
#include "queue/journal/job.h"
#include "queue/journal/seal.h"
#include "queue/journal/tally.h"
#include "queue/journal/trust.h"

/* ---- The lock ------------------------------------------------------------------ */

/*
 * The command in the message copies the counters, so they are kept. A process that gets the lock on the old file later
 * sees that the file was replaced.
 */
static int blocked_words(const struct journal *j, struct gd_error *err)
{
	char reader[LOCK_WORDS_ROOM];
	if (!err)
		return LOCK_BLOCKED;
	cleanup_(text_finish) struct text folder = {0};
	lock_describe_reader(j->lock_fd, reader);
	shell_quote(&folder, j->dir_path, strlen(j->dir_path));
	return error_set(err, LOCK_BLOCKED,
		"cannot lock journal '%s': %s has a lock on append.lock in its folder; end that process or, if "
		"neither a runner nor a job of the queue is running, replace the file: cd %s && cp append.lock "
		"new.lock && mv new.lock append.lock",
		j->path, reader, text_string(&folder));
}

int journal_lock_words(const struct journal *j, int code, struct gd_error *err)
{
	if (code == LOCK_BLOCKED)
		return blocked_words(j, err);
	if (code == -ENOLCK || code == -ENOTSUP || code == -EINVAL || code == -ENOSYS)
		return error_set(err, code,
			"cannot lock journal '%s': the file system does not support locks; put the journal on another one",
			j->path);
	return error_set(err, code, "cannot lock journal '%s': %s", j->path, error_words(code));
}

/* A lock that cannot be released would block all other processes: closing its descriptor releases it, too. */
static void release_append_lock(struct journal *j)
{
	j->locked = false;
	if (lock_release(j->lock_fd) < 0)
		close_fd(&j->lock_fd);
}

/*
 * Whether the locked file is still the one in FILE.d; otherwise, other processes lock a different file. It is not
 * sufficient that the locked file has a name: in a backup with hard links, a file that was replaced has a second one.
 */
static int is_current_lock(const struct journal *j)
{
	struct stat mine, there;
	if (fstat(j->lock_fd, &mine) < 0)
		return -errno;
	if (mine.st_nlink == 0)
		return 0;
	if (fstatat(j->dir_fd, "append.lock", &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* If FILE.d or its lock was removed or replaced, opens the folder again. */
static int take_append_lock(struct journal *j, struct gd_error *err)
{
	for (;;) {
		int r = j->lock_fd < 0 ? journal_open_folder(j, err) : 0;
		if (r < 0)
			return r;
		r = lock_take(j->lock_fd);
		if (r < 0)
			return journal_lock_words(j, r, err);
		r = is_current_lock(j);
		if (r > 0)
			return 0;
		if (r < 0)
			error_set(err, r, "cannot lock journal '%s': %s", j->path, error_words(r));
		else
			r = journal_open_folder(j, err);
		if (r < 0) {
			release_append_lock(j); /* other processes that have the same file wait for it */
			return r;
		}
	}
}

int journal_absence_limit_ms(const struct journal *j)
{
	struct stat lock, st;
	if (fstat(j->lock_fd, &lock) < 0 || stat(j->parent_path, &st) == 0 ||
		(errno != ENOENT && errno != ENOTDIR && errno != EACCES))
		return 0;
	return lock.st_nlink > 0 ? JOURNAL_RENAMED_MS : JOURNAL_REMOVED_MS;
}

bool journal_is_removed(const struct journal *j)
{
	struct stat st;
	return fstat(j->dir_fd, &st) == 0 && st.st_nlink == 0 && fstatat(j->parent_fd, j->name, &st, 0) < 0 &&
	       errno == ENOENT;
}

/*
 * The path had no links when the journal was opened. If another user puts a link to the new place at the old name of a
 * directory that was renamed, the path no longer counts: the link may lead elsewhere at any time. openat2() needs
 * Linux 5.6, and some sandboxes forbid it. It takes a fifteenth of the time of trust_open_directory(), which matters
 * for each append.
 */
static int open_without_links(const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd < 0 ? -errno : fd;
	int r = trust_open_directory(path, false, &fd, NULL);
	return r < 0 ? r : fd;
}

/* 1: the directory of the journal exists, but its path does not lead to it; 0: the path does, or it was removed. */
static int find_move(const struct journal *j)
{
	struct stat there, mine;
	bool known = fstat(j->parent_fd, &mine) == 0;
	if (known ? mine.st_nlink == 0 : errno == ESTALE)
		return 0; /* removed */
	if (!known)
		return -errno;
	cleanup_(closep) int fd = open_without_links(j->parent_path);
	/* -EACCES: another user has put a directory at the old name of a directory that was renamed. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EPERM || fd == -EACCES)
		return 1;
	if (fd < 0 || fstat(fd, &there) < 0)
		return fd < 0 ? fd : -errno;
	return there.st_dev != mine.st_dev || there.st_ino != mine.st_ino;
}

bool journal_is_moved(const struct journal *j)
{
	return find_move(j) == 1;
}

/*
 * A directory that was moved is still used by its descriptor, so that the end of a job is not lost, but only if no
 * other user can replace it at its new place. A directory that was removed and created again is reopened.
 */
static int check_parent(struct journal *j, struct gd_error *err)
{
	int r = find_move(j);
	if (r < 0)
		return error_set(err, r, "cannot open journal '%s': %s", j->path, error_words(r));
	j->moved = r == 1;
	return j->moved && !j->accepted ? trust_check_journal_directory(j->parent_fd, j->path, err) : 0;
}

static int check_file(struct journal *j, struct stat *ret, struct gd_error *err)
{
	int r = check_parent(j, err);
	if (r < 0)
		return r;
	if (fstatat(j->parent_fd, j->name, ret, 0) < 0 && errno != ENOENT)
		return error_set(err, -errno, "cannot open journal '%s': %s", j->path, error_words(errno));
	else if (ret->st_nlink > 0 && ret->st_dev == j->dev && ret->st_ino == j->ino)
		return 0;
	r = journal_open_file(j, err);
	if (r < 0)
		return r;
	if (fstat(j->fd, ret) < 0)
		return error_set(err, -errno, "cannot open journal '%s': %s", j->path, error_words(errno));
	return 0;
}

static int find_machine(struct journal *j, struct gd_error *err)
{
	int r = *j->here.boot ? 0 : journal_machine(&j->here);
	return r < 0 ? error_set(err, r, "cannot lock journal '%s': %s", j->path, error_words(r)) : 0;
}

static void take_counters(struct journal *j, const struct journal_counters *c)
{
	j->size = (off_t)c->size;
	j->tail = c->tail;
	j->generation = c->generation;
	j->next_n = c->next_n;
	j->synced_n = c->synced_n;
	j->next_id = c->next_id;
	j->fence = c->fence;
	memcpy(j->queue, c->queue, sizeof(j->queue));
	memcpy(j->boot, c->boot, sizeof(j->boot));
	memcpy(j->host, c->host, sizeof(j->host));
}

/* Brings the counters up to date with the file. */
static int check_counters(struct journal *j, const struct stat *st, struct gd_error *err)
{
	struct journal_counters c;
	bool have = journal_counters_read(j->lock_fd, &c);
	bool match = have && c.size > 0 && journal_counters_match(j, &c, st->st_size);
	/* If the first line and the end are damaged, the folder and other lines show that it is a journal. */
	if (!match && !j->recognized && !(have && journal_has_seal(j->fd)) &&
		!journal_recognize_zeros(j->fd, st->st_size))
		return journal_refuse_unrecognized(j, err);
	if (!match || c.size != (uint64_t)st->st_size || journal_counters_rebooted(&c, &j->here))
		return journal_recover(j, st->st_size, have ? &c : NULL, err);
	take_counters(j, &c);
	return 0;
}

int journal_lock(struct journal *j, struct gd_error *err)
{
	int r = find_machine(j, err);
	if (r == 0)
		r = take_append_lock(j, err);
	if (r < 0)
		return r;
	j->locked = true;
	j->dirty = false;
	struct stat st = {0};
	r = check_file(j, &st, err);
	if (r == 0)
		r = check_counters(j, &st, err);
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
	release_append_lock(j);
}

uint64_t journal_take_ids(struct journal *j, uint64_t n)
{
	uint64_t first = j->next_id;
	if (n > JOB_MAX_ID || first > JOB_MAX_ID - n)
		return 0;
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
		return error_set(err, r, "cannot write '%s/append.lock': %s", j->dir_path, error_words(r));
	return 0;
}

/* ---- Appending ------------------------------------------------------------------ */

/* The size of the first `count` lines. */
static size_t lines_size(const char *lines, size_t size, uint64_t count)
{
	const char *p = lines, *end = lines + size;
	while (count-- > 0 && p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		p = newline ? newline + 1 : end;
	}
	return (size_t)(p - lines);
}

static uint64_t count_lines(const char *lines, size_t size)
{
	uint64_t n = 0;
	for (const char *p = lines, *end = lines + size; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		n++;
	return n;
}

/* Keeps the complete lines among the first `done` bytes. Returns their number. */
static uint64_t keep_complete(struct journal *j, const struct text *sealed, size_t done)
{
	uint64_t count = count_lines(sealed->data, done);
	size_t complete = lines_size(sealed->data, sealed->length, count);
	/* If this truncation fails too, the next append does it, because the counters do not match. */
	if (complete == done || ftruncate(j->fd, j->size + (off_t)complete) == 0) {
		j->size += (off_t)complete;
		j->tail = 0;
		j->next_n += count;
		j->dirty = true;
	} else {
		j->dirty = false;
	}
	return count;
}

static int append_failed(const struct journal *j, int code, struct gd_error *err)
{
	return error_set(err, code, "cannot write journal '%s': %s%s", j->path, error_words(code),
		code == -ENOSPC || code == -EDQUOT ? "; free some space and try again" : "");
}

static int write_sealed(struct journal *j, const struct text *sealed, size_t *ret_done)
{
	size_t done = 0;
	while (done < sealed->length) {
		ssize_t n = write(j->fd, sealed->data + done, sealed->length - done);
		if (n < 0 && errno == EINTR)
			continue;
		*ret_done = done;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	*ret_done = done;
	return 0;
}

static int append_in(
	struct journal *j, const char *p, size_t size, struct text *sealed, size_t *ret_written, struct gd_error *err)
{
	size_t done = 0;
	uint64_t n = j->next_n;
	for (const char *line = p, *newline; (newline = memchr(line, '\n', size - (size_t)(line - p)));
		line = newline + 1)
		seal_append(sealed, line, (size_t)(newline - line), n++);
	int r = text_error(sealed);
	if (r == 0)
		r = tally_add(j->counts_fd, p, size, 1);
	if (ret_written)
		*ret_written = 0;
	if (r < 0)
		return append_failed(j, r, err);
	r = write_sealed(j, sealed, &done);
	if (r < 0) {
		size_t written = lines_size(p, size, keep_complete(j, sealed, done));
		/* If this fails, the counts are too high, which matters only after damage and is safe. */
		(void)tally_add(j->counts_fd, p + written, size - written, -1);
		if (ret_written)
			*ret_written = written;
		return append_failed(j, r, err);
	}
	j->size += (off_t)sealed->length;
	j->tail = journal_tail_of(sealed->data, sealed->length);
	j->next_n = n;
	j->dirty = true;
	if (ret_written)
		*ret_written = size;
	return 0;
}

int journal_append(struct journal *j, const void *lines, size_t size, size_t *ret_written, struct gd_error *err)
{
	cleanup_(text_finish) struct text sealed = {0};
	return append_in(j, lines, size, &sealed, ret_written, err);
}

int journal_append_in(struct journal *j, const void *line, size_t size, struct text *sealed)
{
	text_clear(sealed);
	return append_in(j, line, size, sealed, NULL, NULL);
}

int journal_peek_fence(const struct journal *j, uint64_t *ret)
{
	struct journal_counters c;
	if (!journal_counters_read(j->lock_fd, &c))
		return -EAGAIN;
	*ret = c.fence;
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

int journal_take_file(struct journal *j, int *fd, struct gd_error *err)
{
	struct stat st;
	closep(&j->fd);
	j->fd = take_fd(fd);
	if (fstat(j->fd, &st) < 0)
		return error_set(err, -errno, "cannot replace journal '%s': %s", j->path, error_words(errno));
	j->dev = st.st_dev;
	j->ino = st.st_ino;
	j->birth = file_birth_ns(j->fd);
	j->recognized = true;
	j->original = j->fresh = false;
	j->size = st.st_size;
	j->tail = 0;
	j->dirty = true;
	return 0;
}
