/* SPDX-License-Identifier: MIT */
/*
 * A new generation of a journal: a clean file that replaces the old one, under the append lock.
 *
 *     draft_open → draft_add … → draft_commit; draft_close in any case
 *
 * The lines are numbered from 1. Committing syncs the file, raises the fence and renames. A crash before the rename
 * leaves the old journal unchanged; after it, the counters are rebuilt from the new file.
 */
#ifndef QUEUE_JOURNAL_DRAFT_H
#define QUEUE_JOURNAL_DRAFT_H

#include "base/text.h"
#include "queue/journal/journal.h"

struct draft {
	struct journal *journal;
	int fd;
	struct text lines; /* not written yet */
	uint64_t generation;
	uint64_t next_n;
	unsigned char *counts;
	size_t num_counts, counts_capacity;
};

/* Under the lock. Writes the first line. The file has the owner and the mode of the journal. */
int draft_open(struct draft *d, struct journal *j, struct gd_error *err);
/* Adds whole lines without seals: 0 or a negative errno value. */
int draft_add(struct draft *d, const char *lines, size_t size);
/* Writes all lines and syncs them. */
int draft_sync(struct draft *d);
/* After draft_sync(). */
int draft_commit(struct draft *d, struct gd_error *err);
/* Removes a draft that was not committed. */
void draft_close(struct draft *d);

/* Gives the journal's file a second name in its directory, so that draft_commit() does not remove it. */
int draft_keep_old(const struct journal *j, const char *name);

#endif
