/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

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
#include "queue/journal/record.h"
#include "queue/journal/seal.h"
#include "queue/journal/trust.h"

#define FIRST_ROOM ((size_t)1 << 18)

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
	r->next_n = 1;
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
		return e;
	}
	journal_limits_init(&r->limits, r->fd, true);
	return 0;
}

void journal_reader_finish(struct journal_reader *r)
{
	closep(&r->fd);
	free(r->buf);
	number_set_finish(&r->missing);
	*r = (struct journal_reader){.fd = -1};
}

/* Starts again from the first line of the file. */
static void begin_again(struct journal_reader *r)
{
	r->offset = 0;
	r->line_no = 0;
	r->original = false;
	r->next_n = 1;
	r->missing.count = 0;
	r->repeated = 0;
}

static int reader_dir(const struct journal_reader *r)
{
	return r->journal ? r->journal->parent_fd : AT_FDCWD;
}

static const char *reader_name(const struct journal_reader *r)
{
	return r->journal ? r->journal->name : r->path;
}

/*
 * The path had no links of other users when it was resolved; a directory may have been replaced with one since.
 * checked: other users must not be able to change or replace the file. The path is resolved once for all checks:
 * another user could exchange a part of it between two.
 */
static int open_path(struct journal_reader *r, bool checked)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1, fd = -1;
	bool as_it_is = r->journal || trust_is_off();
	int e = 0;
	if (!as_it_is)
		e = checked ? trust_open_parent_stable(r->path, &dir_fd, &name, NULL)
			    : trust_open_parent(r->path, false, &dir_fd, &name, NULL);
	if (e == -EPERM)
		return trust_refuse(r->path, TRUST_FOREIGN_WAY, &r->refusal);
	if (e < 0)
		return e;
	fd = file_open_regular(as_it_is ? reader_dir(r) : dir_fd, as_it_is ? reader_name(r) : name, O_NOFOLLOW);
	bool acts = r->journal || (r->checked && !r->unordered); /* on a journal, not an archive */
	if (fd >= 0 && acts && (e = trust_check_root(fd, r->path, &r->refusal)) < 0)
		return e;
	if (fd < 0 || !checked)
		return take_fd(&fd);
	e = trust_check(fd, r->path, TRUST_OTHER_JOURNAL, &r->refusal);
	if (e == 0 && (r->journal || !as_it_is))
		e = trust_check_journal_directory(r->journal ? r->journal->parent_fd : dir_fd, r->path, &r->refusal);
	return e < 0 ? e : take_fd(&fd);
}

static int reader_open(struct journal_reader *r)
{
	cleanup_(closep) int fd = open_path(r, r->checked);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	journal_limits_init(&r->limits, fd, r->journal);
	r->fd = take_fd(&fd);
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	r->disordered = false;
	begin_again(r);
	return 0;
}

/* Internal result, not an error: the lines must be sorted. */
#define OUT_OF_ORDER 1

/* The first line shows whether the lines have no seals, so that they are not taken for damaged. */
static int look_at_first(struct journal_reader *r, const char *line, size_t size)
{
	struct record record;
	if (seal_is_there(line, size) || record_parse(line, size, &record) < 0)
		return 0;
	if (record.event == EVENT_JOURNAL && record.version == 1)
		return -EPROTONOSUPPORT;
	r->original = record.event == EVENT_LEGACY;
	return 0;
}

/* Notes the number of a line. Returns -EBADMSG if the line is repeated. */
static int note_number(struct journal_reader *r, uint64_t n)
{
	if (r->unordered || n == r->next_n) {
		r->next_n = n + 1;
		return 0;
	}
	if (n > r->next_n) {
		if (r->limits.foreign && r->missing.count >= JOURNAL_MAX_FOREIGN_GAPS)
			return journal_limits_refuse(&r->limits, r->path, "has too many gaps", &r->refusal);
		int e = number_set_add(&r->missing, r->next_n, n - 1);
		r->next_n = n + 1;
		return e;
	}
	if (number_set_has(&r->missing, n))
		return OUT_OF_ORDER;
	r->repeated++;
	return -EBADMSG;
}

static int hand_out(struct journal_reader *r, const char *line, size_t size, journal_line_fn *fn, void *context)
{
	int e = fn(context, r->line_no, line, size);
	return e < 0 ? e : e > 0 ? -ECANCELED : 0;
}

/* Handles one line without its newline. The line may be modified. */
static int take_line(struct journal_reader *r, char *line, size_t size, journal_line_fn *fn, void *context)
{
	uint64_t n;
	size_t body;
	int e = journal_limits_line(&r->limits, r->path, &r->refusal);
	if (e == 0 && ++r->line_no == 1 && !r->sorted)
		e = look_at_first(r, line, size);
	if (e < 0)
		return e;
	r->line = line;
	r->line_size = size;
	if (r->original || size == 0)
		return hand_out(r, line, size, fn, context);
	e = seal_check(line, size, &n, &body);
	if (e == 0)
		e = note_number(r, n);
	if (e == -EBADMSG)
		return hand_out(r, JOURNAL_BAD_LINE, sizeof(JOURNAL_BAD_LINE) - 1, fn, context);
	if (e != 0)
		return e;
	char comma = line[body];
	line[body] = '}';
	e = hand_out(r, line, body + 1, fn, context);
	line[body] = comma;
	return e;
}

/* Handles the complete lines among the first n bytes of the buffer. Returns their size, or an error code. */
static int take_lines(struct journal_reader *r, size_t n, journal_line_fn *fn, void *context, size_t *ret_taken)
{
	char *p = r->buf, *end = p + n, *newline;
	int e = 0;
	while (e == 0 && (newline = memchr(p, '\n', (size_t)(end - p)))) {
		e = take_line(r, p, (size_t)(newline - p), fn, context);
		p = newline + 1;
	}
	*ret_taken = (size_t)(p - r->buf);
	return e;
}

/* Returns -EFBIG. line_no: the number of the previous line. */
static int refuse_line(struct journal_reader *r, uint64_t line_no)
{
	return error_set(&r->refusal, -EFBIG,
		"cannot read journal '%s': line %" PRIu64 " is longer than %zu MiB: the file is damaged; move it away",
		r->path, line_no + 1, r->limits.max_line_bytes >> 20);
}

/* Reads up to the size that the file had before: another user could append faster than this reads. */
static int read_to_end(struct journal_reader *r, off_t end, journal_line_fn *fn, void *context)
{
	while (r->offset < end) {
		size_t taken, rest = (size_t)(end - r->offset), want = rest < r->capacity ? rest : r->capacity;
		ssize_t n = pread(r->fd, r->buf, want, r->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		int e = take_lines(r, (size_t)n, fn, context, &taken);
		r->offset += (off_t)taken;
		if (e != 0)
			return e;
		if ((size_t)n < r->capacity)
			return 0;
		if (taken == 0 && r->capacity >= r->limits.max_line_bytes)
			return refuse_line(r, r->line_no);
		if (taken == 0 && array_reserve(r->buf, &r->capacity, r->capacity * 4) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- Lines in the order of their numbers ------------------------------------ */

struct numbered_line {
	uint64_t n; /* 0: damaged */
	char *line;
	size_t size;
	uint64_t line_no;
};

static int compare_lines(const void *a, const void *b)
{
	const struct numbered_line *x = a, *y = b;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int take_sorted(struct journal_reader *r, char *bytes, size_t size, journal_line_fn *fn, void *context)
{
	cleanup_(freep) struct numbered_line *lines = NULL;
	size_t count = 0, capacity = 0, body;
	char *p = bytes, *newline;
	for (; (newline = memchr(p, '\n', size - (size_t)(p - bytes))); p = newline + 1) {
		if (r->limits.foreign && count == JOURNAL_MAX_FOREIGN_SORTED)
			return journal_limits_refuse(&r->limits, r->path, "its lines are out of order", &r->refusal);
		if ((size_t)(newline - p) > r->limits.max_line_bytes)
			return refuse_line(r, count);
		if (array_reserve(lines, &capacity, count + 1) < 0)
			return -ENOMEM;
		lines[count] = (struct numbered_line){.line = p, .size = (size_t)(newline - p), .line_no = count + 1};
		if (seal_check(p, lines[count].size, &lines[count].n, &body) < 0)
			lines[count].n = 0;
		count++;
	}
	if (count)
		qsort(lines, count, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < count; i++) {
		r->line_no = lines[i].line_no - 1;
		int e = take_line(r, lines[i].line, lines[i].size, fn, context);
		if (e != 0)
			return e;
	}
	r->line_no = count;
	r->offset = p - bytes;
	return 0;
}

/* Reads the whole file into memory: it is damaged, which is rare. A line that is too long is an error, as elsewhere. */
static int read_sorted(struct journal_reader *r, off_t end, journal_line_fn *fn, void *context)
{
	enum { PIECE = 1 << 20 };
	cleanup_(freep) char *bytes = NULL;
	size_t size = 0, capacity = 0, line_at = 0;
	for (;;) {
		size_t want = (size_t)end - size < PIECE ? (size_t)end - size : PIECE;
		if (array_reserve(bytes, &capacity, size + PIECE) < 0)
			return -ENOMEM;
		ssize_t n = pread(r->fd, bytes + size, want, (off_t)size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return take_sorted(r, bytes, size, fn, context);
		const char *newline = memrchr(bytes + size, '\n', (size_t)n);
		size += (size_t)n;
		if (newline)
			line_at = (size_t)(newline - bytes) + 1;
		if (size - line_at > r->limits.max_line_bytes)
			return refuse_line(r, 0);
	}
}

static int read_new(struct journal_reader *r, journal_line_fn *fn, void *context)
{
	off_t end;
	int e = journal_limits_look(&r->limits, r->fd, r->path, &end, &r->refusal);
	if (e == 0 && r->offset == 0 && r->sorted)
		e = read_sorted(r, end, fn, context);
	return e == 0 ? read_to_end(r, end, fn, context) : e;
}

int journal_reader_read(struct journal_reader *r, journal_line_fn *fn, void *context)
{
	if (r->fd < 0) {
		int e = reader_open(r);
		if (e < 0 || r->fd < 0)
			return e;
	}
	/* Checked before the last read: everything in the old file was appended before the rename. */
	struct stat at_path, mine;
	bool found = fstatat(reader_dir(r), reader_name(r), &at_path, 0) == 0;
	bool replaced = found && (at_path.st_dev != r->dev || at_path.st_ino != r->ino);
	/* If the file is at least as long as the part read before, it was not truncated; read_new() adds only bytes
	 * that exist. */
	bool whole = found && !replaced && at_path.st_size >= r->offset;
	int e = read_new(r, fn, context);
	if (e == OUT_OF_ORDER) {
		begin_again(r);
		r->disordered = r->sorted = true;
		return 1;
	}
	if (e < 0)
		return e;
	if (whole)
		return 0;
	if (fstat(r->fd, &mine) < 0)
		return -errno;
	if (!replaced && mine.st_size >= r->offset)
		return 0;
	close(take_fd(&r->fd));
	return 1;
}

int journal_reader_check(struct journal_reader *r)
{
	struct stat st;
	cleanup_(closep) int fd = open_path(r, true);
	if (fd < 0 && fd != -ENOENT)
		return fd;
	bool is_same = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == r->dev && st.st_ino == r->ino;
	return is_same ? 0 : trust_refuse(r->path, TRUST_JUST_REPLACED, &r->refusal);
}

int journal_reader_explain(const struct journal_reader *r, int code, struct gd_error *err)
{
	if ((code == -EPERM || code == -EFBIG || code == -ETIME) && r->refusal.code == code)
		return error_set(err, code, "%s", r->refusal.message);
	if (code == -ENOTSUP)
		return error_set(err, code,
			"cannot read journal '%s': it was written by a newer version of gpuq; use that version",
			r->path);
	if (code == -EPROTONOSUPPORT)
		return error_set(err, code,
			"cannot read journal '%s': it has version 1, which was never released; move it away", r->path);
	if (code == -EINVAL)
		return error_set(err, code, "cannot read journal '%s': it is not a regular file", r->path);
	return error_set(err, code, "cannot read journal '%s': %s", r->path, error_words(code));
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
	/* The file need not exist yet. */
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
