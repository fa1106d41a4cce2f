/* SPDX-License-Identifier: MIT */
#include "launch/map_input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/named_file.h"
#include "base/trust.h"
#include "base/utf8.h"

#define READ_BYTES     ((size_t)256 << 10)
#define MAX_HOLE_BYTES ((off_t)64 << 20)

/* ---- Opening ------------------------------------------------------------ */

/* Does not wait for the writer of a pipe: the run polls it, and can be stopped. */
static int open_leased(const char *path, const char *opened, struct gd_error *err)
{
	int fd = file_open_leased(opened);
	if (fd == -EAGAIN)
		return error_set(
			err, fd, "cannot read input '%s': another process has a lease on it; try again later", path);
	return fd < 0 ? error_set(err, fd, "cannot read input '%s': %s", path, error_words(fd)) : fd;
}

/* Whether nobody but this user and root can have removed the file. path: as the kernel shows it. */
static bool is_removed_by_us(int fd, const struct stat *st, char *path)
{
	cleanup_(closep) int dir_fd = -1;
	char *slash = strrchr(path, '/');
	slash[slash == path] = '\0';
	return st->st_nlink == 0 && !trust_objection(fd) && trust_open_directory(path, true, &dir_fd, NULL) == 0 &&
	       !trust_objection_above(dir_fd);
}

/*
 * Whether another user can have put another file at the place of the one that a shell has opened. Its current path is
 * examined; a file that this path does not lead to may have been removed or moved by such a user. Shells remove the
 * temporary file of a here-document themselves.
 */
static bool is_replaceable(int fd)
{
	cleanup_(closep) int found = -1;
	struct trust_way way = TRUST_WAY_INIT;
	struct stat st, named;
	char path[PATH_MAX];
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		return false;
	if (file_path(fd, path) < 0)
		return true;
	if (trust_open_any(AT_FDCWD, path, &found, &way) < 0 || fstat(found, &named) < 0)
		return !is_removed_by_us(fd, &st, path);
	return named.st_dev != st.st_dev || named.st_ino != st.st_ino || way.replaceable;
}

static int open_named(const char *path, bool trust, bool *ret_replaceable, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	struct trust_way way = TRUST_WAY_INIT;
	struct stat st;
	const char *objection;
	char opened[32];
	int r = named_file_find(path, trust, &way, &fd, &st, &objection);
	/* /dev/urandom has items without end. */
	if (r == 0 && way.replaceable && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
		objection = "it is a device, which another user may have put there";
	if (objection)
		return error_set(err, -EPERM, "cannot read input '%s': %s; to %s", path, objection,
			way.chooser && !trust
				? "use it, name it without this link, or use --trust if you trust the owner of the link"
				: "read it anyway, pass it as standard input, with --input -");
	if (r < 0)
		return error_set(err, r, "cannot read input '%s': %s", path, error_words(r));
	*ret_replaceable = way.replaceable;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	return open_leased(path, opened, err);
}

/* Reading terabytes of zeros takes hours, and another user can make such a file without using the disk. */
static bool has_holes(int fd, off_t from, off_t size)
{
	bool many = file_count_holes(fd, from, size, MAX_HOLE_BYTES) > MAX_HOLE_BYTES;
	return many || lseek(fd, from, SEEK_SET) < 0;
}

int map_input_open(struct map_input *in, const char *path, bool lines, bool trust, struct gd_error *err)
{
	struct stat st;
	bool standard = strcmp(path, "-") == 0, passed = standard || named_file_is_passed(path), replaceable = false;
	cleanup_(closep) int fd =
		standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_named(path, trust, &replaceable, err);
	if (fd < 0 && !standard)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot read input '%s': %s", path, error_words(-errno));
	if (S_ISDIR(st.st_mode))
		return error_set(err, -EISDIR,
			"cannot read input '%s': it is a directory; use 'gpuq launch' to process the files of a directory",
			path);
	off_t at = S_ISREG(st.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
	if (at >= 0 && has_holes(fd, at, st.st_size))
		return error_set(err, -EFBIG,
			"cannot read input '%s': it has more than 64 MiB of holes, which contain no items; create the file again",
			path);
	*in = (struct map_input){
		.name = standard ? "standard input" : path,
		.lines = lines,
		.regular = at == 0,
		.replaceable = passed ? is_replaceable(fd) : replaceable,
		.size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
		.limit = at >= 0 && st.st_size > at ? (uint64_t)(st.st_size - at) : 0,
	};
	in->fd = take_fd(&fd);
	return 0;
}

void map_input_finish(struct map_input *in)
{
	close_fd(&in->fd);
	free(in->buf);
	in->buf = NULL;
}

int map_input_rewind(struct map_input *in)
{
	if (lseek(in->fd, 0, SEEK_SET) < 0)
		return -errno;
	in->number = in->taken = 0;
	in->begin = in->end = in->searched = 0;
	in->skipping = in->at_end = false;
	return 0;
}

/* ---- Reading ------------------------------------------------------------ */

/* Files of /proc and of some FUSE file systems have contents, but no size. */
static bool has_size(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 || st.st_size > 0;
}

int map_input_read(struct map_input *in)
{
	size_t have = in->end - in->begin;
	if (in->begin > 0)
		memmove(in->buf, in->buf + in->begin, have);
	in->begin = 0;
	in->end = have;
	if (array_reserve(in->buf, &in->capacity, have + READ_BYTES) < 0)
		return -ENOMEM;
	if (in->limit == 0 && has_size(in->fd)) {
		in->at_end = true;
		return 0;
	}
	ssize_t n;
	do {
		n = read(in->fd, in->buf + have, in->capacity - have);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	in->end += (size_t)n;
	in->at_end = n == 0;
	return 0;
}

/* ---- Lines -------------------------------------------------------------- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const struct map_input *in, struct map_line *line)
{
	if (line->number == 1 && line->size >= 3 && memcmp(line->text, "\xEF\xBB\xBF", 3) == 0) {
		line->text += 3; /* a byte order mark */
		line->size -= 3;
	}
	if (in->lines) {
		line->size -= line->size > 0 && line->text[line->size - 1] == '\r';
		return;
	}
	for (; line->size > 0 && is_space(line->text[0]); line->size--)
		line->text++;
	while (line->size > 0 && is_space(line->text[line->size - 1]))
		line->size--;
}

static const char *objection(const struct map_input *in, const struct map_line *line)
{
	if (in->lines)
		return utf8_is_valid(line->text, line->size) ? NULL : "the line is not UTF-8";
	struct json_cursor c = {.p = line->text, .end = line->text + line->size, .first = true};
	struct json_value value;
	if (json_inner_value(&c, &value) == 0 && json_end(&c) == 0)
		return NULL;
	c = (struct json_cursor){.p = line->text, .end = line->text + line->size, .first = true};
	return json_member_value(&c, &value) == 0 && json_end(&c) == 0
		       ? "the line is nested more than 48 levels deep"
		       : "the line is not a JSON value; use --lines for lines of text";
}

/* The item of a line; false if it has none. */
static bool make_item(const struct map_input *in, enum map_input_want want, bool too_long, struct map_line *line)
{
	trim(in, line);
	if (!in->lines && line->size == 0)
		return false;
	if (want >= MAP_INPUT_CHECK)
		line->check = crc32c(in->lines, line->text, line->size);
	if (too_long)
		line->bad = "the line is longer than 8 MiB";
	else if (want == MAP_INPUT_ITEM)
		line->bad = objection(in, line);
	return true;
}

/* The rest of a line that was too long. */
static bool skip_rest(struct map_input *in)
{
	size_t have = in->end - in->begin;
	const char *newline = have ? memchr(in->buf + in->begin, '\n', have) : NULL;
	size_t n = newline ? (size_t)(newline + 1 - in->buf) - in->begin : have;
	in->begin += n;
	in->taken += n;
	in->skipping = !newline;
	return newline;
}

/* A whole line, or the beginning of one that is too long: its size, with its newline, or 0. */
static size_t next_size(struct map_input *in, bool *ret_long)
{
	size_t have = in->end - in->begin;
	const char *line = have ? in->buf + in->begin : "";
	const char *newline = have > in->searched ? memchr(line + in->searched, '\n', have - in->searched) : NULL;
	size_t size = newline ? (size_t)(newline - line) + 1 : have;
	*ret_long = size > MAP_LINE_MAX + (newline ? 1 : 0);
	bool cut = in->taken + size < in->limit; /* at the end of the file: another program has truncated it */
	if (newline || (in->at_end && !cut) || *ret_long) {
		in->searched = 0;
		return size;
	}
	in->searched = have;
	return 0;
}

enum map_input_event map_input_next(struct map_input *in, enum map_input_want want, struct map_line *ret)
{
	for (;;) {
		bool too_long = false;
		if (in->limit > 0 && in->taken >= in->limit)
			return MAP_INPUT_END;
		if (in->skipping && !skip_rest(in))
			return in->at_end ? MAP_INPUT_END : MAP_INPUT_MORE;
		size_t size = next_size(in, &too_long);
		if (size == 0)
			return in->at_end ? MAP_INPUT_END : MAP_INPUT_MORE;
		const char *text = in->buf + in->begin;
		bool whole = text[size - 1] == '\n';
		in->begin += size;
		in->taken += size;
		in->skipping = !whole && !in->at_end;
		struct map_line line = {.number = ++in->number, .text = text, .size = size - whole, .bytes = size};
		if (too_long && line.size > MAP_LINE_MAX)
			line.size = MAP_LINE_MAX;
		if (make_item(in, want, too_long, &line)) {
			*ret = line;
			return MAP_INPUT_LINE;
		}
	}
}
