/* SPDX-License-Identifier: MIT */
/*
 * Repairing a damaged journal: a clean copy replaces it as a new generation, while runners may be active.
 *
 * The copy has all intact lines, in the order of their numbers, and an `unknown` line for each unfinished job that lost
 * a record. If the `add` of jobs was lost, or a `seen` line may have been, it also has `lost` lines: from then on, new
 * lines of commands files are added as held, because their jobs may have run already. The damaged file is kept.
 */
#ifndef QUEUE_JOURNAL_REPAIR_H
#define QUEUE_JOURNAL_REPAIR_H

#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"

struct repair_result {
	bool repaired;  /* false: nothing to do */
	char kept[300]; /* the name of the damaged file, in the journal's directory */
};

/* Whether a journal that was read has anything to repair. */
bool repair_is_needed(const struct jobs *js, const struct journal_reader *r);

int repair(struct journal *j, struct repair_result *ret, struct gd_error *err);

#endif
