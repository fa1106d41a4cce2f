/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "queue/journal/trust.h"

#define FIRST_ROOM ((size_t)1 << 20)

int journal_reader_init(struct journal_reader *r, const char *path)
{
	*r = (struct journal_reader){.path = path, .fd = -1};
	r->buf = malloc(FIRST_ROOM);
	if (!r->buf)
		return -ENOMEM;
	r->capacity = FIRST_ROOM;
	return 0;
}

int journal_reader_init_at(struct journal_reader *r, const struct journal *j)
{
	int e = journal_reader_init(r, j->path);
	r->journal = j;
	r->checked = !j->accepted;
	return e;
}

int journal_reader_init_open(struct journal_reader *r, const struct journal *j)
{
	int e = journal_reader_init_at(r, j);
	if (e < 0)
		return e;
	/* Closing a descriptor of the journal releases no lock: the lock is on append.lock. */
	r->fd = fcntl(j->fd, F_DUPFD_CLOEXEC, 3);
	r->dev = j->dev;
	r->ino = j->ino;
	if (r->fd < 0) {
		e = -errno;
		journal_reader_finish(r);
	}
	return e;
}

void journal_reader_finish(struct journal_reader *r)
{
	closep(&r->fd);
	free(r->buf);
	*r = (struct journal_reader){.fd = -1};
}

static int reader_dir(const struct journal_reader *r)
{
	return r->journal ? r->journal->parent_fd : AT_FDCWD;
}

static const char *reader_name(const struct journal_reader *r)
{
	return r->journal ? r->journal->name : r->path;
}

static int reader_open(struct journal_reader *r)
{
	cleanup_(closep) int fd = file_open_regular(reader_dir(r), reader_name(r), O_NOFOLLOW);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	r->objection = r->checked ? trust_objection(fd) : NULL;
	if (r->objection)
		return -EPERM;
	r->fd = take_fd(&fd);
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	r->offset = 0;
	r->line_no = 0;
	return 0;
}

/* The complete lines among the first n bytes of the buffer. Returns how many bytes they are, or what fn returned. */
static ssize_t take_lines(struct journal_reader *r, size_t n, journal_line_fn *fn, void *context)
{
	char *p = r->buf, *end = p + n, *newline;
	while ((newline = memchr(p, '\n', (size_t)(end - p)))) {
		int e = fn(context, ++r->line_no, p, (size_t)(newline - p));
		p = newline + 1;
		if (e != 0) {
			r->offset += p - r->buf;
			return e < 0 ? e : -ECANCELED;
		}
	}
	return p - r->buf;
}

static int read_to_end(struct journal_reader *r, journal_line_fn *fn, void *context)
{
	for (;;) {
		ssize_t n = pread(r->fd, r->buf, r->capacity, r->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		ssize_t taken = take_lines(r, (size_t)n, fn, context);
		if (taken < 0)
			return (int)taken;
		r->offset += taken;
		if ((size_t)n < r->capacity)
			return 0;
		if (taken == 0 && r->capacity >= JOURNAL_MAX_LINE_BYTES)
			return -EFBIG;
		if (taken == 0 && array_reserve(r->buf, &r->capacity, r->capacity * 4) < 0)
			return -ENOMEM;
	}
}

int journal_reader_read(struct journal_reader *r, journal_line_fn *fn, void *context)
{
	if (r->fd < 0) {
		int e = reader_open(r);
		if (e < 0 || r->fd < 0)
			return e;
	}
	/* Looked at before the last read: what was appended to the old file came before the rename. */
	struct stat at_path, mine;
	bool replaced = fstatat(reader_dir(r), reader_name(r), &at_path, 0) == 0 &&
			(at_path.st_dev != r->dev || at_path.st_ino != r->ino);
	int e = read_to_end(r, fn, context);
	if (e < 0)
		return e;
	if (fstat(r->fd, &mine) < 0)
		return -errno;
	if (!replaced && mine.st_size >= r->offset)
		return 0;
	close(take_fd(&r->fd));
	return 1;
}

int journal_reader_explain(const struct journal_reader *r, int code, struct gd_error *err)
{
	if (code == -EPERM && r->objection)
		return trust_refuse(r->path, r->objection, err);
	if (code == -ENOTSUP)
		return error_set(
			err, code, "reading journal '%s': it was written by a newer gpuq; use that one", r->path);
	if (code == -EINVAL)
		return error_set(err, code, "reading journal '%s': it is not a regular file", r->path);
	if (code == -EFBIG)
		return error_set(err, code,
			"reading journal '%s': line %" PRIu64
			" is longer than 64 MiB: the file is damaged; move it away",
			r->path, r->line_no + 1);
	return error_set(err, code, "reading journal '%s': %s", r->path, error_words(code));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int journal_watch(const char *path)
{
	cleanup_(closep) int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	cleanup_(freep) char *dir = strndup(path, (size_t)(base_name(path) - path));
	if (fd < 0 || !dir)
		return -1;
	if (inotify_add_watch(fd, *dir ? dir : ".", IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) < 0)
		return -1;
	/* It need not be there yet. */
	inotify_add_watch(fd, path, IN_MODIFY);
	return take_fd(&fd);
}

void journal_watch_drain(int fd, const char *path)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n;
	bool replaced = false;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (char *p = buf; p < buf + n;) {
			struct inotify_event *e = (struct inotify_event *)(void *)p;
			if (e->mask & IN_Q_OVERFLOW || (e->len && strcmp(e->name, base_name(path)) == 0))
				replaced = true;
			p += sizeof(*e) + e->len;
		}
	if (replaced)
		inotify_add_watch(fd, path, IN_MODIFY);
}
