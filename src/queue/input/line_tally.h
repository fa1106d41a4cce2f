/* SPDX-License-Identifier: MIT */
/*
 * How often each line of a commands file was added to the queue: a multiset of lines.
 *
 * Lines are identified by their hash, because only hashes are kept of the lines of pruned jobs. Start from {0}.
 */
#ifndef QUEUE_INPUT_LINE_TALLY_H
#define QUEUE_INPUT_LINE_TALLY_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/journal/jobs.h"

struct line_tally {
	struct line_tally_entry *entries; /* open addressing; room is a power of two */
	size_t room, used;
	uint64_t seed; /* for the positions in the table */
};

/* Counts all lines that were ever added from this file, including those of pruned jobs. -ENOMEM. */
int line_tally_add_file(struct line_tally *t, const struct jobs *js, const char *file);

/* Removes one occurrence of this line. False if there is none left: the line is new. */
bool line_tally_take(struct line_tally *t, const void *line, size_t size);

void line_tally_finish(struct line_tally *t);

#endif
