/* SPDX-License-Identifier: MIT */
#include "launch/map_origin.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "base/trust.h"

#define NAME       "files"
#define ROOM       4096
#define NOTE_BYTES 2048 /* map_origin_add() appends more */

static int open_logs(const struct map_record *r)
{
	cleanup_(text_finish) struct text name = {0};
	if (!r->output.regular)
		return -1;
	text_appendf(&name, "%s.logs", r->output.entry);
	/* A link is not followed: others can move links, too. */
	return openat(r->output.dir_fd, text_string(&name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A line. The inode number of a removed file is given to a new one, which has another time of birth. */
static void append_file(struct text *t, int fd)
{
	struct statx st;
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
		return;
	bool born = st.stx_mask & STATX_BTIME;
	text_appendf(t, "%" PRIu64 " %" PRId64 ".%09u\n", (uint64_t)st.stx_ino, born ? (int64_t)st.stx_btime.tv_sec : 0,
		born ? st.stx_btime.tv_nsec : 0);
}

/* Empty if there is no note, or if others can have written it. */
static void read_note(int logs_fd, char ret[ROOM])
{
	if (logs_fd < 0 || trust_objection(logs_fd) || file_read_small(logs_fd, NAME, ret, ROOM) < 0)
		ret[0] = '\0';
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/* size: without the newline. */
static bool has_line(const char *lines, const char *wanted, size_t size)
{
	for (const char *line = lines; *line; line = next_line(line))
		if (strcspn(line, "\n") == size && memcmp(line, wanted, size) == 0)
			return true;
	return false;
}

static bool is_noted(const struct map_record *r, int fd)
{
	char noted[ROOM];
	cleanup_(text_finish) struct text file = {0};
	cleanup_(closep) int logs = open_logs(r);
	read_note(logs, noted);
	append_file(&file, fd);
	return text_error(&file) == 0 && file.length > 0 && has_line(noted, file.data, file.length - 1);
}

/* Without a time of birth, an earlier file may have been removed, and another one may have its inode number. */
static bool is_certain(const char *line, size_t size)
{
	static const char unborn[] = " 0.000000000";
	size_t n = sizeof(unborn) - 1;
	return size > n && memcmp(line + size - n, unborn, n) != 0;
}

/* Files of earlier runs, such as that of --errors if this run has none. The oldest ones are dropped. */
static void append_earlier(struct text *t, const char *lines)
{
	for (const char *line = lines; *line; line = next_line(line)) {
		size_t size = strcspn(line, "\n");
		if (t->length + size >= NOTE_BYTES)
			return;
		if (!is_certain(line, size) || has_line(text_string(t), line, size))
			continue;
		text_append(t, line, size);
		text_append_char(t, '\n');
	}
}

bool map_origin_is_doubtful(const struct map_record *r, int dir_fd, int fd)
{
	return trust_check_place(dir_fd, NULL) < 0 && !is_noted(r, fd);
}

static void write_note(int logs_fd, int flags, const struct text *t)
{
	cleanup_(closep) int fd =
		openat(logs_fd, NAME, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0600);
	if (fd >= 0 && text_error(t) == 0)
		(void)file_write_all(fd, t->data, t->length);
}

void map_origin_note(const struct map_record *r, int logs_fd)
{
	char before[ROOM];
	cleanup_(text_finish) struct text now = {0};
	read_note(logs_fd, before);
	append_file(&now, r->output.fd);
	append_file(&now, r->errors.fd);
	append_earlier(&now, before);
	/* The newline at the end is not part of `before`. */
	size_t size = strlen(before);
	if (size > 0 && size + 1 == now.length && memcmp(before, now.data, size) == 0)
		return;
	write_note(logs_fd, O_CREAT | O_TRUNC, &now);
}

void map_origin_add(const struct map_record *r, int fd)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(closep) int logs = open_logs(r);
	append_file(&t, fd);
	if (logs >= 0)
		write_note(logs, O_APPEND, &t);
}
