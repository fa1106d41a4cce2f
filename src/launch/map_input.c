/* SPDX-License-Identifier: MIT */
#include "launch/map_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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
#include "launch/find.h"

#define READ_BYTES     ((size_t)256 << 10)
#define MAX_HOLE_BYTES ((off_t)64 << 20)
#define LEASE_MS       2000
#define LEASE_PAUSE_MS 10

/* ---- Opening ------------------------------------------------------------ */

/*
 * Does not wait for the writer of a pipe: the run polls it, and can be stopped. If another process has a lease on the
 * file (F_SETLEASE), it is asked to release it: a file server does so at once.
 */
static int open_leased(const char *path, const char *opened, struct gd_error *err)
{
	const struct timespec pause = {.tv_nsec = LEASE_PAUSE_MS * 1000000};
	for (int ms = 0;; ms += LEASE_PAUSE_MS) {
		int fd = open(opened, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd >= 0)
			return fd;
		if (errno != EAGAIN)
			return error_set(err, -errno, "cannot read input '%s': %s", path, error_words(-errno));
		if (ms >= LEASE_MS)
			return error_set(err, -EAGAIN,
				"cannot read input '%s': another process has a lease on it; try again later", path);
		(void)nanosleep(&pause, NULL);
	}
}

/* A descriptor that the user has passed to this process, as in --input <(command). */
static bool is_passed(const char *path)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		size_t n = strlen(folders[i]);
		if (strncmp(path, folders[i], n) == 0 && path[n] && !path[n + strspn(path + n, "0123456789")])
			return true;
	}
	return strcmp(path, "/dev/stdin") == 0;
}

/* A link of another user must not lead to a file that its owner may not be allowed to read: the results would disclose
 * it. */
static int open_named(const char *path, bool *ret_replaceable, struct gd_error *err)
{
	cleanup_(closep) int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closep) int fd = -1;
	struct trust_way way = TRUST_WAY_INIT;
	/* The walk does not examine the directory that the path begins at. */
	way.replaceable = here < 0 || (path[0] != '/' && trust_check_place(here, NULL) < 0);
	struct stat st;
	const char *objection;
	char opened[32];
	if (is_passed(path))
		return open_leased(path, path, err);
	int r = find_open_entry(here < 0 ? AT_FDCWD : here, path, false, &way, &fd, &st, &objection);
	if (objection)
		return error_set(err, -EPERM, "cannot read input '%s': %s; to use it, name it without this link", path,
			objection);
	if (r < 0)
		return error_set(err, r, "cannot read input '%s': %s", path, error_words(r));
	/* /dev/urandom has items without end. */
	if ((way.chooser || way.replaceable) && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
		return error_set(err, -EPERM,
			"cannot read input '%s': it is a device, which another user may have put there; to read it anyway, pass it as standard input, with --input -",
			path);
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

int map_input_open(struct map_input *in, const char *path, bool lines, struct gd_error *err)
{
	struct stat st;
	bool standard = strcmp(path, "-") == 0, replaceable = false;
	cleanup_(closep) int fd =
		standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_named(path, &replaceable, err);
	if (fd < 0 && !standard)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot read input '%s': %s", path, error_words(-errno));
	if (S_ISDIR(st.st_mode))
		return error_set(err, -EISDIR,
			"cannot read input '%s': it is a directory; use 'gpuq launch' to process the files of a directory",
			path);
	if (!standard && named_file_is_pipe_of_others(fd, &st))
		return error_set(err, -EPERM,
			"cannot read input '%s': it is a pipe of another user; to read it anyway, pass it as standard input, with --input -",
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
		.replaceable = replaceable,
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
	if (newline || in->at_end || *ret_long) {
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
