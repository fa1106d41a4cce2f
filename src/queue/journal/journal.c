/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/lock.h"
#include "queue/journal/record.h"

#define COUNTERS_FORMAT                                                                                                \
	"gpuq-counters-1 %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 "\n"
#define COUNTERS_SCAN "gpuq-counters-1 %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
#define COUNTERS_SIZE (15 + 6 * 21 + 1)

/* So many of the last bytes tell whether a file of the same number is still the same. */
#define TAIL_BYTES 64

int journal_resolve(const char *path, char **ret, struct gd_error *err)
{
	cleanup_(freep) char *real = realpath(path, NULL);
	if (real) {
		*ret = take_ptr(real);
		return 0;
	}
	if (errno != ENOENT)
		return error_set(err, -errno, "opening journal '%s': %s", path, error_words(errno));
	const char *slash = strrchr(path, '/');
	cleanup_(freep) char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	const char *base = slash ? slash + 1 : path;
	if (!dir)
		return error_set(err, -ENOMEM, "opening journal '%s': out of memory", path);
	if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return error_set(err, -EISDIR, "opening journal '%s': it is a directory; name a file", path);
	cleanup_(freep) char *real_dir = realpath(dir, NULL);
	if (!real_dir)
		return error_set(
			err, -errno, "opening journal '%s': directory '%s': %s", path, dir, error_words(errno));
	char *joined;
	if (asprintf(&joined, "%s/%s", strcmp(real_dir, "/") == 0 ? "" : real_dir, base) < 0)
		return error_set(err, -ENOMEM, "opening journal '%s': out of memory", path);
	*ret = joined;
	return 0;
}

/* ---- Opening ----------------------------------------------------------------- */

static int open_file(struct journal *j, struct gd_error *err)
{
	cleanup_(closep) int fd = open(j->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "opening journal '%s': it is not a regular file", j->path);
	if (j->fd >= 0)
		close(j->fd);
	j->fd = take_fd(&fd);
	j->dev = st.st_dev;
	j->ino = st.st_ino;
	return 0;
}

/*
 * What lies in the folder is executed like the journal itself: it must be in no more hands than that. Somebody
 * else may have made it first, where all can make files.
 */
static int check_folder(const struct journal *j, int fd, const char *shown, struct gd_error *err)
{
	struct stat st, journal;
	if (fstat(fd, &st) < 0 || fstat(j->fd, &journal) < 0)
		return error_set(err, -errno, "looking at directory '%s': %s", shown, error_words(errno));
	bool ours = st.st_uid == geteuid() || st.st_uid == 0 || st.st_uid == journal.st_uid;
	if (ours && !(st.st_mode & ~journal.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	return error_set(err, -EPERM,
		"directory '%s' %s, who could make this account run anything; remove it or use another journal", shown,
		ours ? "can be written by others" : "belongs to another user");
}

/* A folder of ours, made where it is not there. */
static int open_dir(
	const struct journal *j, int at, const char *path, const char *shown, int *ret_fd, struct gd_error *err)
{
	if (mkdirat(at, path, 0700) < 0 && errno != EEXIST)
		return error_set(err, -errno, "making directory '%s': %s", shown, error_words(errno));
	cleanup_(closep) int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, -errno, "opening directory '%s': %s", shown, error_words(errno));
	int r = check_folder(j, fd, shown, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int open_folder(struct journal *j, struct gd_error *err)
{
	static const char *const parts[] = {"keepers", "env", "scripts"};
	cleanup_(closep) int dir_fd = -1;
	int r = open_dir(j, AT_FDCWD, j->dir_path, j->dir_path, &dir_fd, err);
	for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		cleanup_(closep) int part_fd = -1;
		r = open_dir(j, dir_fd, parts[i], parts[i], &part_fd, err);
	}
	if (r < 0)
		return r;
	cleanup_(closep) int lock_fd = openat(dir_fd, "append.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0)
		return error_set(err, -errno, "opening '%s/append.lock': %s", j->dir_path, error_words(errno));
	if (j->dir_fd >= 0)
		close(j->dir_fd);
	if (j->lock_fd >= 0)
		close(j->lock_fd);
	j->dir_fd = take_fd(&dir_fd);
	j->lock_fd = take_fd(&lock_fd);
	return 0;
}

int journal_open(const char *path, struct journal **ret, struct gd_error *err)
{
	cleanup_(journal_closep) struct journal *j = calloc(1, sizeof(*j));
	if (!j)
		return error_set(err, -ENOMEM, "opening journal '%s': out of memory", path);
	j->fd = j->dir_fd = j->lock_fd = -1;
	int r = journal_resolve(path, &j->path, err);
	if (r < 0)
		return r;
	if (asprintf(&j->dir_path, "%s.d", j->path) < 0)
		return error_set(err, -ENOMEM, "opening journal '%s': out of memory", path);
	r = open_file(j, err);
	if (r == 0)
		r = open_folder(j, err);
	if (r < 0)
		return r;
	*ret = take_ptr(j);
	return 0;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	journal_unlock(j);
	closep(&j->fd);
	closep(&j->dir_fd);
	closep(&j->lock_fd);
	free(j->path);
	free(j->dir_path);
	free(j);
}

void journal_closep(struct journal **j)
{
	journal_close(*j);
}

/* ---- Counters ---------------------------------------------------------------- */

struct counters {
	uint64_t dev, ino, size, tail, next_id, fence;
};

static bool read_counters(struct journal *j, struct counters *ret)
{
	char line[COUNTERS_SIZE + 1];
	ssize_t n = pread(j->lock_fd, line, COUNTERS_SIZE, 0);
	if (n != COUNTERS_SIZE)
		return false;
	line[n] = '\0';
	return line[n - 1] == '\n' && sscanf(line, COUNTERS_SCAN, &ret->dev, &ret->ino, &ret->size, &ret->tail,
					      &ret->next_id, &ret->fence) == 6;
}

/* Of the bytes before `end`. */
static uint64_t tail_hash(const struct journal *j, off_t end)
{
	char tail[TAIL_BYTES];
	off_t from = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
	ssize_t n = pread(j->fd, tail, (size_t)(end - from), from);
	return n < 0 ? 0 : hash_bytes(tail, (size_t)n).a;
}

static int write_counters(struct journal *j)
{
	char line[COUNTERS_SIZE + 1];
	int n = snprintf(line, sizeof(line), COUNTERS_FORMAT, (uint64_t)j->dev, (uint64_t)j->ino, (uint64_t)j->size,
		tail_hash(j, j->size), j->next_id, j->fence);
	ssize_t done = pwrite(j->lock_fd, line, (size_t)n, 0);
	if (done != n)
		return done < 0 ? -errno : -ENOSPC;
	j->dirty = false;
	return 0;
}

/* Where the last complete line ends. A last line that lacks but its newline is complete. */
static int find_end(struct journal *j, off_t size, off_t *ret_end, bool *ret_lacks_newline)
{
	size_t room = 65536;
	cleanup_(freep) char *buf = NULL;
	for (;; room *= 4) {
		off_t from = size > (off_t)room ? size - (off_t)room : 0;
		size_t want = (size_t)(size - from);
		free(buf);
		buf = malloc(want + 1);
		if (!buf)
			return -ENOMEM;
		ssize_t n = pread(j->fd, buf, want, from);
		if (n < 0)
			return -errno;
		char *newline = memrchr(buf, '\n', (size_t)n);
		if (!newline && from > 0)
			continue;
		*ret_end = newline ? from + (newline - buf) + 1 : 0;
		size_t start = (size_t)(*ret_end - from);
		struct record r;
		*ret_lacks_newline = (size_t)n > start && record_parse(buf + start, (size_t)n - start, &r) == 0;
		return 0;
	}
}

static int cut_tail(struct journal *j, off_t size, struct gd_error *err)
{
	bool lacks_newline = false;
	off_t end = size;
	int r = size > 0 ? find_end(j, size, &end, &lacks_newline) : 0;
	if (r < 0)
		return error_set(err, r, "reading journal '%s': %s", j->path, error_words(r));
	if (lacks_newline) {
		if (write(j->fd, "\n", 1) != 1)
			return error_set(err, -errno, "writing journal '%s': %s", j->path, error_words(errno));
		end = size + 1;
	} else if (end < size && ftruncate(j->fd, end) < 0) {
		return error_set(err, -errno, "cutting a torn line off journal '%s': %s", j->path, error_words(errno));
	}
	j->size = end;
	return 0;
}

static int note_id(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct journal *j = context;
	struct record r;
	(void)line_no;
	if (size == 0 || record_parse(line, size, &r) < 0)
		return 0;
	if (r.event == EVENT_LEGACY)
		j->next_id++;
	else if (r.event == EVENT_JOURNAL && (uint64_t)r.next_id > j->next_id)
		j->next_id = (uint64_t)r.next_id;
	else if (r.event == EVENT_ADD && r.id >= j->next_id)
		j->next_id = r.id + 1;
	return 0;
}

/* Brings the counters up to date from the lines after `from`. */
static int scan_ids(struct journal *j, off_t from)
{
	struct journal_reader r;
	int e = journal_reader_init(&r, j->path);
	if (e < 0)
		return e;
	/* Lines only: opening and closing the journal itself drops no lock, for it is not what is locked. */
	r.fd = fcntl(j->fd, F_DUPFD_CLOEXEC, 3);
	r.dev = j->dev;
	r.ino = j->ino;
	r.offset = from;
	e = r.fd < 0 ? -errno : journal_reader_read(&r, note_id, j);
	journal_reader_finish(&r);
	return e < 0 ? e : 0;
}

static int write_header(struct journal *j, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	record_write_journal(&t, j->next_id);
	if (text_error(&t))
		return error_set(err, -ENOMEM, "writing journal '%s': out of memory", j->path);
	j->created = true;
	return journal_append(j, t.data, t.length, NULL, err);
}

/* Whether all up to the counters' size is as they knew it. A number alone may be that of a file put there anew. */
static bool is_same_file(const struct journal *j, const struct counters *c, off_t size)
{
	return c->dev == (uint64_t)j->dev && c->ino == (uint64_t)j->ino && c->size <= (uint64_t)size &&
	       c->tail == tail_hash(j, (off_t)c->size);
}

static int recover(struct journal *j, off_t size, const struct counters *c, struct gd_error *err)
{
	bool same_file = c && is_same_file(j, c, size);
	int r = cut_tail(j, size, err);
	if (r < 0)
		return r;
	j->next_id = c && c->next_id ? c->next_id : 1;
	uint64_t now = (uint64_t)date_now_ms() * 1000;
	j->fence = (c && c->fence >= now ? c->fence : now) + 1;
	j->dirty = true;
	off_t from = same_file && (off_t)c->size <= j->size ? (off_t)c->size : 0;
	if (from == 0 && c) {
		/* Another file: its own ids count, and none that was given before is given again. */
		uint64_t before = j->next_id;
		j->next_id = 1;
		r = scan_ids(j, 0);
		j->next_id = j->next_id > before ? j->next_id : before;
	} else {
		r = scan_ids(j, from);
	}
	if (r < 0)
		return error_set(err, r, "reading journal '%s': %s", j->path, error_words(r));
	return j->size == 0 ? write_header(j, err) : 0;
}

/* ---- The lock ------------------------------------------------------------------ */

int journal_lock_words(const struct journal *j, int code, struct gd_error *err)
{
	if (code == -ENOLCK || code == -ENOTSUP || code == -EINVAL || code == -ENOSYS)
		return error_set(err, code,
			"locking journal '%s': this file system has no locks; put the journal on another one", j->path);
	return error_set(err, code, "locking journal '%s': %s", j->path, error_words(code));
}

/* Somebody may have removed FILE.d: then others lock a file that is not ours. */
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
			r = open_folder(j, err);
		if (r < 0) {
			lock_release(j->lock_fd); /* others wait for it who have the same file */
			return r;
		}
	}
}

bool journal_is_removed(const struct journal *j)
{
	struct stat st;
	cleanup_(freep) char *folder = strdup(j->path);
	if (!folder || fstat(j->lock_fd, &st) < 0 || st.st_nlink > 0)
		return false;
	return stat(dirname(folder), &st) < 0 && errno == ENOENT;
}

static int check_file(struct journal *j, struct stat *ret, struct gd_error *err)
{
	if (stat(j->path, ret) < 0 && errno != ENOENT)
		return error_set(err, -errno, "opening journal '%s': %s", j->path, error_words(errno));
	else if (ret->st_nlink > 0 && ret->st_dev == j->dev && ret->st_ino == j->ino)
		return 0;
	int r = open_file(j, err);
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
	struct counters c;
	bool have = r == 0 && read_counters(j, &c);
	if (r == 0) {
		if (have && st.st_size > 0 && c.size == (uint64_t)st.st_size && is_same_file(j, &c, st.st_size)) {
			j->size = st.st_size;
			j->next_id = c.next_id;
			j->fence = c.fence;
		} else {
			r = recover(j, st.st_size, have ? &c : NULL, err);
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
	/* Failing is no harm here: counters that do not fit the file are made anew. */
	if (j->dirty)
		(void)write_counters(j);
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
	/* Written now: a crash before the unlock must not leave starts of before valid. */
	int r = write_counters(j);
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
	/* Where the cut fails too, the next append makes it: the counters do not fit then. */
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
	const char *slash = strrchr(j->path, '/');
	cleanup_(freep) char *dir = strndup(j->path, slash == j->path ? 1 : (size_t)(slash - j->path));
	if (!dir)
		return -ENOMEM;
	cleanup_(closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot sync a directory and say so. */
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
	/* Before the rename: a start that was decided upon with the old file is void from here on. */
	int r = journal_raise_fence(j, err);
	if (r < 0)
		return r;
	if (renameat(j->dir_fd, draft, AT_FDCWD, j->path) < 0)
		return error_set(err, -errno, "replacing journal '%s': %s", j->path, error_words(errno));
	struct stat st;
	r = open_file(j, err);
	if (r == 0 && fstat(j->fd, &st) < 0)
		r = error_set(err, -errno, "replacing journal '%s': %s", j->path, error_words(errno));
	if (r < 0)
		return r;
	j->size = st.st_size;
	j->dirty = true;
	r = sync_directory(j);
	return r < 0 ? error_set(err, r, "syncing the directory of '%s': %s", j->path, error_words(r)) : 0;
}
