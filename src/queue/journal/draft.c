/* SPDX-License-Identifier: MIT */
#include "queue/journal/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/journal/journal_private.h"
#include "queue/journal/record.h"
#include "queue/journal/seal.h"
#include "queue/journal/tally.h"

#define DRAFT       "draft"
#define FLUSH_BYTES ((size_t)1 << 20)

static int create_file(struct draft *d)
{
	struct stat st;
	if (fstat(d->journal->fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM; /* the journal would get another owner */
	/* A process that was killed may have left a draft. */
	unlinkat(d->journal->dir_fd, DRAFT, 0);
	d->fd = openat(d->journal->dir_fd, DRAFT, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->fd < 0)
		return -errno;
	file_copy_access(d->journal->fd, d->fd);
	return 0;
}

int draft_open(struct draft *d, struct journal *j, struct gd_error *err)
{
	*d = (struct draft){.journal = j, .fd = -1, .generation = j->generation + 1, .next_n = 1};
	cleanup_(text_finish) struct text t = {0};
	int r = create_file(d);
	record_write_journal(&t, j->queue, d->generation, j->next_id);
	if (r == 0)
		r = text_error(&t) ? text_error(&t) : draft_add(d, t.data, t.length);
	if (r < 0) {
		draft_close(d);
		return error_set(err, r, "cannot write '%s/" DRAFT "': %s", j->dir_path, error_words(r));
	}
	return 0;
}

static int flush(struct draft *d, size_t above)
{
	if (text_error(&d->lines))
		return text_error(&d->lines);
	if (d->lines.length <= above)
		return 0;
	int r = file_write_all(d->fd, d->lines.data, d->lines.length);
	text_clear(&d->lines);
	return r;
}

/* The `records` of a line, or -1. Only few lines have it, so most are not parsed. */
static int64_t records_of(const char *line, size_t size)
{
	struct record r;
	static const char key[] = "\"records\":";
	return memmem(line, size, key, sizeof(key) - 1) && record_parse(line, size, &r) == 0 ? r.records : -1;
}

int draft_add(struct draft *d, const char *lines, size_t size)
{
	int r = 0;
	const char *line = lines, *end = lines + size, *newline;
	for (; r == 0 && (newline = memchr(line, '\n', (size_t)(end - line))); line = newline + 1) {
		uint64_t id = tally_line_id(line, (size_t)(newline - line));
		seal_append(&d->lines, line, (size_t)(newline - line), d->next_n++);
		if (id)
			r = tally_count(&d->counts, &d->counts_capacity, &d->num_counts, id,
				records_of(line, (size_t)(newline - line)));
		if (r == 0)
			r = flush(d, FLUSH_BYTES);
	}
	return r;
}

int draft_sync(struct draft *d)
{
	int r = flush(d, 0);
	if (r == 0 && fsync(d->fd) < 0)
		r = -errno;
	return r;
}

static int replaced(struct journal *j, int code, struct gd_error *err)
{
	return error_set(err, code, "cannot replace journal '%s': %s", j->path, error_words(code));
}

int draft_commit(struct draft *d, struct gd_error *err)
{
	struct journal *j = d->journal;
	/* Before the rename: voids starts that were decided with the old file. */
	int r = journal_raise_fence(j, err);
	if (r < 0)
		return r;
	if (renameat(j->dir_fd, DRAFT, j->parent_fd, j->name) < 0)
		return replaced(j, -errno, err);
	r = journal_take_file(j, &d->fd, err);
	if (r < 0)
		return r;
	j->generation = d->generation;
	j->next_n = d->next_n;
	j->synced_n = d->next_n - 1;
	/* If the counts cannot be written, the counters must not claim that they belong to this file. */
	r = tally_write(j->counts_fd, d->counts, d->num_counts);
	if (r < 0)
		j->dirty = false;
	else
		r = journal_counters_write(j);
	if (r == 0)
		r = journal_sync_directory(j);
	return r < 0 ? replaced(j, r, err) : 0;
}

void draft_close(struct draft *d)
{
	if (d->fd >= 0)
		unlinkat(d->journal->dir_fd, DRAFT, 0);
	close_fd(&d->fd);
	text_finish(&d->lines);
	free(d->counts);
	d->counts = NULL;
}

int draft_keep_old(const struct journal *j, const char *name)
{
	return linkat(j->parent_fd, j->name, j->parent_fd, name, 0) < 0 ? -errno : 0;
}
