/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "queue/journal/record.h"

/* Finds the end of the last complete line. A last line that lacks only its newline is complete. */
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
		if (!newline && from > 0 && room >= JOURNAL_MAX_LINE_BYTES)
			return -EFBIG;
		if (!newline && from > 0)
			continue;
		*ret_end = newline ? from + (newline - buf) + 1 : 0;
		size_t start = (size_t)(*ret_end - from);
		struct record r;
		*ret_lacks_newline = (size_t)n > start && record_parse(buf + start, (size_t)n - start, &r) == 0;
		return 0;
	}
}

static int truncate_torn_line(struct journal *j, off_t size, struct gd_error *err)
{
	bool lacks_newline = false;
	off_t end = size;
	int r = size > 0 ? find_end(j, size, &end, &lacks_newline) : 0;
	if (r == -EFBIG)
		return error_set(err, r,
			"reading journal '%s': its end is not a line: the file is damaged; move it away", j->path);
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

/* Brings next_id up to date from the lines after `from`. */
static int scan_ids(struct journal *j, off_t from, struct gd_error *err)
{
	struct journal_reader r;
	int e = journal_reader_init_open(&r, j);
	if (e < 0)
		return error_set(err, e, "reading journal '%s': %s", j->path, error_words(e));
	r.offset = from;
	e = journal_reader_read(&r, note_id, j);
	if (e < 0)
		journal_reader_explain(&r, e, err);
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

int journal_recover(struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err)
{
	bool same_file = c && journal_counters_match(j, c, size);
	int r = truncate_torn_line(j, size, err);
	if (r < 0)
		return r;
	j->next_id = c && c->next_id ? c->next_id : 1;
	uint64_t now = (uint64_t)date_now_ms() * 1000;
	j->fence = (c && c->fence >= now ? c->fence : now) + 1;
	j->dirty = true;
	off_t from = same_file && (off_t)c->size <= j->size ? (off_t)c->size : 0;
	if (from == 0 && c) {
		/* Another file: its ids count, and no id that was given before is given again. */
		uint64_t before = j->next_id;
		j->next_id = 1;
		r = scan_ids(j, 0, err);
		j->next_id = j->next_id > before ? j->next_id : before;
	} else {
		r = scan_ids(j, from, err);
	}
	if (r < 0)
		return r;
	return j->size == 0 ? write_header(j, err) : 0;
}
