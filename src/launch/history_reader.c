/* SPDX-License-Identifier: MIT */
#include "launch/history_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/line_reader.h"
#include "base/trust.h"
#include "launch/history_checksum.h"

static int parse(const char *text, size_t size, struct json_value *ret_event, struct history_line *ret)
{
	/* In the order in which they are written: the search continues after the last one found. */
	const struct {
		const char *name;
		struct json_value *value;
	} members[] = {
		{"event", ret_event},
		{"file", &ret->file.plain},
		{"file_b64", &ret->file.coded},
		{"size", &ret->size},
		{"mtime", &ret->mtime},
		{"output", &ret->output.plain},
		{"output_b64", &ret->output.coded},
		{"owner", &ret->owner},
		{"fingerprint", &ret->fingerprint},
		{"node", &ret->node},
		{"gpu", &ret->gpu},
		{"audio_seconds", &ret->audio},
		{"processing_seconds", &ret->processing},
		{"error", &ret->error},
		{"time", &ret->time},
		{"version", &ret->version},
		{"input", &ret->input.plain},
		{"input_b64", &ret->input.coded},
	};
	const size_t num_members = sizeof(members) / sizeof(*members);
	struct json_cursor c;
	struct json_value key, value;
	size_t next = 0;
	int r = json_begin(&c, text, size);
	if (r < 0)
		return r;
	while ((r = json_next_member(&c, &key, &value)) > 0)
		for (size_t k = 0; k < num_members; k++) {
			size_t i = (next + k) % num_members;
			if (!json_is(&key, members[i].name))
				continue;
			*members[i].value = value;
			next = i + 1;
			break;
		}
	return r < 0 ? r : json_end(&c);
}

static enum history_event event_of(const struct json_value *event)
{
	if (json_is(event, "run"))
		return HISTORY_RUN;
	if (json_is(event, "started"))
		return HISTORY_STARTED;
	if (json_is(event, "done"))
		return HISTORY_DONE;
	return json_is(event, "failed") ? HISTORY_FAILED : 0;
}

/* Whether a run's lines have checksums. take() refuses lines of later versions. */
static bool needs_checksum(const struct history_line *run)
{
	int64_t version;
	return json_to_int64(&run->version, &version) == 0 && version > HISTORY_WITHOUT_CHECKSUM &&
	       version <= HISTORY_VERSION;
}

static int take_line(struct history_reader *r, const char *text, size_t size, uint64_t number)
{
	struct json_value event = {0};
	struct history_line line = {.number = number};
	enum history_checksum sum = history_checksum_check(text, size);
	int e = sum == HISTORY_CHECKSUM_WRONG ? -EBADMSG : parse(text, size, &event, &line);
	if (e < 0)
		return e;
	line.event = event_of(&event);
	bool strict = line.event == HISTORY_RUN ? needs_checksum(&line) : r->checksums;
	if (event.type != JSON_STRING || (strict && sum == HISTORY_CHECKSUM_NONE))
		return -EBADMSG;
	if (line.event == HISTORY_RUN)
		r->checksums = strict;
	return line.event ? r->take(r->context, &line) : 0;
}

/*
 * Another user may have made a huge sparse file, or one that grows while it is read. *ret_max: the most bytes to read
 * of a file that others could have written.
 */
static int look_at_size(int fd, bool checked, uint64_t *ret_max)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (file_count_holes(fd, 0, st.st_size, HISTORY_MAX_HOLE_BYTES) > HISTORY_MAX_HOLE_BYTES)
		return -EFBIG;
	*ret_max = checked || trust_is_off() || !trust_objection(fd) ? UINT64_MAX : HISTORY_MAX_FOREIGN_BYTES;
	return (uint64_t)st.st_size > *ret_max ? -E2BIG : 0;
}

int history_reader_open(const char *path)
{
	cleanup_(freep) char *name = NULL;
	cleanup_(closep) int dir_fd = -1;
	if (trust_is_off())
		return file_open_regular(AT_FDCWD, path, 0);
	int e = trust_open_parent(path, false, &dir_fd, &name, NULL);
	return e < 0 ? e : file_open_regular(dir_fd, name, O_NOFOLLOW);
}

int history_reader_run(struct history_reader *r, int fd)
{
	r->bad_lines = r->first_bad_line = r->size_read = 0;
	r->checksums = false;
	r->objection = r->checked ? trust_objection(fd) : NULL;
	if (r->objection)
		return -EPERM;
	uint64_t max_bytes = 0;
	int e = look_at_size(fd, r->checked, &max_bytes);
	if (e < 0)
		return e;
	cleanup_(line_reader_finish) struct line_reader lines = {.fd = fd, .max_bytes = HISTORY_MAX_LINE_BYTES};
	const char *text;
	ssize_t n;
	for (uint64_t number = 1; (n = line_reader_next(&lines, &text)) > 0; number++) {
		r->size_read += (uint64_t)n;
		if (r->size_read > max_bytes)
			return -E2BIG;
		bool blank = text[0] == '\n', unfinished = text[n - 1] != '\n';
		if (blank || (unfinished && r->skip_unfinished))
			continue;
		e = take_line(r, text, (size_t)n, number);
		if (e < 0 && e != -EBADMSG)
			return e;
		if (e < 0 && r->bad_lines++ == 0)
			r->first_bad_line = number;
	}
	return (int)n;
}

const char *history_reader_words(int code)
{
	if (code == -E2BIG)
		return "other users can write to it, and it is larger than 256 MiB; set GPUQ_TRUST=1 to read it anyway";
	if (code == -EPERM)
		return "a symbolic link of another user leads to it";
	return code == -EFBIG
		       ? "a line is longer than 16 MiB, or the file has more than 64 MiB of holes: it is damaged; move it away"
		       : error_words(code);
}

/* ---- Bytes -------------------------------------------------------------- */

size_t history_bytes_room(const struct history_bytes *b)
{
	if (b->coded.type == JSON_STRING)
		return b->coded.size / 4 * 3;
	return b->plain.type == JSON_STRING ? b->plain.size : 0;
}

ssize_t history_bytes_decode(const struct history_bytes *b, char *out)
{
	if (b->coded.type == JSON_STRING)
		return base64_decode(b->coded.data, b->coded.size, out);
	return b->plain.type == JSON_STRING ? (ssize_t)json_unescape(&b->plain, out) : -EBADMSG;
}
