/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "queue/journal/convert.h"
#include "queue/journal/record.h"
#include "queue/journal/seal.h"
#include "queue/journal/tally.h"

/* Counters found from the lines of the file. */
struct recovery {
	struct journal *journal;
	const struct journal_counters *old; /* NULL: none */
	bool has_header;
	char queue[JOURNAL_QUEUE_ROOM]; /* from the header */
	uint64_t generation;
	uint64_t next_id;
	unsigned char *counts; /* records of each job */
	size_t num_counts, counts_capacity;
	struct number_set losses; /* losses that earlier recoveries accepted */
	struct journal_reader reader;
};

/* ---- The beginning of the file --------------------------------------------------------- */

/*
 * Whether the counters were written for this file. Another file, for example one that git has put there, can have the
 * number of the inode that was removed; it was created at another time.
 */
static bool is_file_of(const struct journal *j, const struct journal_counters *c)
{
	return (uint64_t)j->dev == c->dev && (uint64_t)j->ino == c->ino &&
	       (j->birth == c->birth || j->birth == 0 || c->birth == 0);
}

/*
 * Checks, before anything is changed, whether the folder belongs to this journal: the header has the id of the queue,
 * or the header is damaged in the file that the counters describe.
 */
static int check_queue(const struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err)
{
	if (!c || j->accepted || size == 0)
		return 0;
	int r = j->original ? -ENODATA : journal_compare_queue(j->fd, c->queue);
	if (r < 0 && r != -ENODATA)
		return error_set(err, r, "cannot read journal '%s': %s", j->path, error_words(r));
	return r > 0 || (r < 0 && is_file_of(j, c)) ? 0 : journal_refuse_folder(j, err);
}

/* ---- The end of the file ------------------------------------------------------------- */

/* Finds the end of the last complete line. *ret_number is the number of the line after that end if only the newline of
 * this line is missing, otherwise 0. */
static int find_end(struct journal *j, off_t size, off_t *ret_end, uint64_t *ret_number)
{
	size_t room = 65536;
	cleanup_(freep) char *buf = NULL;
	for (;; room *= 4) {
		off_t from = size > (off_t)room ? size - (off_t)room : 0;
		size_t want = (size_t)(size - from), body;
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
		if (seal_check(buf + start, (size_t)n - start, ret_number, &body) < 0)
			*ret_number = 0;
		return 0;
	}
}

/*
 * Bytes that the counters cover were written as whole lines: they are damaged, not torn, and stay as evidence. The
 * same applies to a line with a number that the counters cover, in a file that replaced the journal. Other
 * bytes after the last newline are removed, even if only the newline is missing: readers have never shown them.
 */
static int repair_end(struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err)
{
	off_t end = size, covered = c && is_file_of(j, c) ? (off_t)c->size : 0;
	uint64_t number = 0;
	int r = size > 0 ? find_end(j, size, &end, &number) : 0;
	if (r == -EFBIG)
		return error_set(err, r,
			"cannot read journal '%s': the last line is incomplete: the file is damaged; move it away",
			j->path);
	if (r < 0)
		return error_set(err, r, "cannot read journal '%s': %s", j->path, error_words(r));
	if (end < size && (covered > end || (c && number > 0 && number < c->next_n))) {
		if (write(j->fd, "\n", 1) != 1)
			return error_set(err, -errno, "cannot write journal '%s': %s", j->path, error_words(errno));
		end = size + 1;
	} else if (end < size && ftruncate(j->fd, end) < 0) {
		return error_set(
			err, -errno, "cannot truncate a torn line of journal '%s': %s", j->path, error_words(errno));
	}
	j->size = end;
	j->tail = 0;
	return 0;
}

/* ---- The lines of the file --------------------------------------------------------------- */

static void note_header(struct recovery *v, const struct record *r)
{
	if (r->queue.size == sizeof(v->queue) - 1 && !v->has_header) {
		memcpy(v->queue, r->queue.data, sizeof(v->queue) - 1);
		v->generation = r->generation > 0 ? (uint64_t)r->generation : 1;
		v->has_header = true;
	}
	if (r->next_id > 0 && (uint64_t)r->next_id > v->next_id)
		v->next_id = (uint64_t)r->next_id;
}

static int note_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct recovery *v = context;
	struct record r;
	(void)line_no;
	if (size == 0 || record_parse(line, size, &r) < 0)
		return 0;
	if (r.event == EVENT_JOURNAL)
		note_header(v, &r);
	if (r.event == EVENT_LOSS && r.from > 0 && r.to >= r.from)
		return number_set_add(&v->losses, (uint64_t)r.from, (uint64_t)r.to);
	if (r.id >= v->next_id)
		v->next_id = r.id + 1;
	return r.id ? tally_count(&v->counts, &v->counts_capacity, &v->num_counts, r.id, r.records) : 0;
}

static int read_lines(struct recovery *v, struct gd_error *err)
{
	int e = journal_reader_init_open(&v->reader, v->journal);
	if (e < 0)
		return error_set(err, e, "cannot read journal '%s': %s", v->journal->path, error_words(e));
	v->reader.sorted = true;
	e = journal_reader_read(&v->reader, note_line, v);
	return e < 0 ? journal_reader_explain(&v->reader, e, err) : 0;
}

/* ---- The counters ---------------------------------------------------------------------------- */

static int make_queue_id(struct journal *j)
{
	struct hash h;
	if (getrandom(&h, sizeof(h), 0) != sizeof(h))
		return -errno;
	hash_format(h, j->queue);
	return 0;
}

/*
 * Determines the queue and the generation. A file without a readable header continues those of the counters; a new file
 * begins a new generation.
 */
static int identify(struct recovery *v, bool is_new, struct gd_error *err)
{
	struct journal *j = v->journal;
	const struct journal_counters *c = v->old;
	int r = 0;
	if (v->has_header)
		memcpy(j->queue, v->queue, sizeof(j->queue));
	else if (c)
		memcpy(j->queue, c->queue, sizeof(j->queue));
	else
		r = make_queue_id(j);
	if (v->has_header)
		j->generation = v->generation;
	else
		j->generation = v->generation = c ? c->generation + is_new : 1;
	/* An older file was restored: later records are missing from it, and readers must be able to detect that. */
	if (c && strcmp(c->queue, j->queue) == 0 && c->generation > j->generation)
		j->generation = c->generation;
	return r < 0 ? error_set(err, r, "cannot create a queue id: %s", error_words(r)) : 0;
}

static bool is_same_generation(const struct recovery *v)
{
	return v->old && v->old->generation == v->generation && strcmp(v->old->queue, v->journal->queue) == 0;
}

/* Ids with a count in `counts` are taken, too. */
static uint64_t counted_ids(const struct journal *j)
{
	cleanup_(freep) unsigned char *counts = NULL;
	size_t size = 0;
	if (tally_read(j->counts_fd, &counts, &size) < 0)
		return 1;
	while (size > 1 && !counts[size - 1])
		size--;
	return size;
}

static void set_counters(struct recovery *v)
{
	struct journal *j = v->journal;
	const struct journal_counters *c = v->old;
	uint64_t now = (uint64_t)date_now_ms() * 1000;
	bool same = is_same_generation(v), rebooted = same && journal_counters_rebooted(c, &j->here);
	j->fence = (c && c->fence >= now ? c->fence : now) + 1;
	j->next_id = v->next_id;
	if (c && c->next_id > j->next_id && c->next_id <= JOB_MAX_ID)
		j->next_id = c->next_id;
	uint64_t counted = c ? 1 : counted_ids(j);
	if (counted > j->next_id && counted <= JOB_MAX_ID)
		j->next_id = counted;
	/* Known numbers are not reused, except those of unsynced lines lost in a power cut. */
	j->next_n = v->reader.next_n;
	uint64_t known = !same ? 0 : rebooted ? c->synced_n + 1 : c->next_n;
	if (known > j->next_n)
		j->next_n = known;
	/* After a restart, everything that can be read is on the disk. */
	j->synced_n = rebooted ? j->next_n - 1 : same ? c->synced_n : 0;
	if (j->synced_n >= j->next_n)
		j->synced_n = j->next_n - 1;
	memcpy(j->boot, j->here.boot, sizeof(j->boot));
	memcpy(j->host, j->here.host, sizeof(j->host));
	j->dirty = true;
}

/* Records which numbers were lost in a power cut before they were synced: a permitted loss. */
static int write_losses(struct recovery *v, struct text *t)
{
	struct journal *j = v->journal;
	if (!is_same_generation(v) || !journal_counters_rebooted(v->old, &j->here))
		return 0;
	for (size_t i = 0; i < v->reader.missing.count; i++) {
		struct number_range range = v->reader.missing.ranges[i];
		if (range.first <= v->old->synced_n)
			range.first = v->old->synced_n + 1;
		if (range.first <= range.last && !number_set_has(&v->losses, range.first)) {
			record_write_loss(t, range.first, range.last);
			int r = number_set_add(&v->losses, range.first, range.last);
			if (r < 0)
				return r;
		}
	}
	return text_error(t);
}

/*
 * After a restart the counters claim that all numbers are on the disk. If another power cut removed the `loss` lines,
 * the missing numbers would be holes. So the lines are synced first, or synced_n stays unchanged.
 */
static void sync_losses(struct recovery *v)
{
	struct journal *j = v->journal;
	j->synced_n = fdatasync(j->fd) == 0 ? j->next_n - 1 : v->old->synced_n;
}

/* Whether no record is missing except permitted losses; -ENOMEM. */
static int is_complete(const struct recovery *v)
{
	struct number_set holes = {0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < v->reader.missing.count; i++)
		r = number_set_add(&holes, v->reader.missing.ranges[i].first, v->reader.missing.ranges[i].last);
	for (size_t i = 0; r == 0 && i < v->losses.count; i++)
		r = number_set_remove(&holes, v->losses.ranges[i].first, v->losses.ranges[i].last);
	bool newest = !v->old || strcmp(v->old->queue, v->journal->queue) != 0 || v->generation >= v->old->generation;
	if (r == 0)
		r = newest && holes.count == 0 && v->reader.next_n == v->journal->next_n;
	number_set_finish(&holes);
	return r;
}

/* Also rewrites the counts from the lines if no record is missing: after a crash, the counts may be wrong. */
static int write_lines(struct recovery *v, bool is_empty, struct gd_error *err)
{
	struct journal *j = v->journal;
	cleanup_(text_finish) struct text t = {0};
	int r = write_losses(v, &t);
	bool lost = t.length > 0;
	int complete = r == 0 ? is_complete(v) : r;
	if (complete < 0)
		r = complete;
	else if (complete)
		r = tally_write(j->counts_fd, v->counts, v->num_counts);
	if (r == 0 && is_empty) {
		/* A new journal is private; one that was made with `touch jobs.jsonl` usually is not. Best effort. */
		if (!j->fresh && !j->accepted)
			(void)fchmod(j->fd, 0600);
		record_write_journal(&t, j->queue, j->generation, j->next_id);
		r = text_error(&t);
		j->created = true;
	}
	if (r < 0)
		return error_set(err, r, "cannot write journal '%s': %s", j->path, error_words(r));
	r = t.length ? journal_append(j, t.data, t.length, NULL, err) : 0;
	if (r == 0 && lost)
		sync_losses(v);
	return r;
}

static int recover_from_lines(struct recovery *v, off_t size, struct gd_error *err)
{
	struct journal *j = v->journal;
	bool is_empty = j->size == 0, is_new = is_empty && j->fresh;
	int r = size > 0 ? read_lines(v, err) : 0;
	if (r == 0)
		r = identify(v, is_new, err);
	if (r < 0)
		return r;
	set_counters(v);
	return write_lines(v, is_empty, err);
}

int journal_recover(struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err)
{
	struct recovery v = {.journal = j, .old = c, .next_id = 1, .reader = {.fd = -1, .next_n = 1}};
	int r = check_queue(j, size, c, err);
	if (r == 0 && j->original)
		return convert_original(j, c, err);
	if (r == 0)
		r = repair_end(j, size, c, err);
	if (r == 0)
		r = recover_from_lines(&v, size, err);
	free(v.counts);
	number_set_finish(&v.losses);
	journal_reader_finish(&v.reader);
	return r;
}
