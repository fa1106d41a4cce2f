/* SPDX-License-Identifier: MIT */
/*
 * Repairing a damaged journal: a clean copy takes its place, as a new generation, next to runners that work.
 *
 * The copy has all lines that are intact, in the order of their numbers, and an `unknown` line for each job of which
 * a record was lost and that is not over. If the `add` of jobs was lost, or a line `seen` may have been, it also has
 * `lost` lines: new lines of commands files are added as held from then on, because they may be those of jobs that
 * ran. The damaged file is kept.
 */
#ifndef QUEUE_JOURNAL_REPAIR_H
#define QUEUE_JOURNAL_REPAIR_H

#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"

struct repair_result {
	bool repaired;  /* false: there was nothing to do */
	char kept[300]; /* the name of the damaged file, in the journal's directory */
};

/* Whether a journal that was read has anything to repair. */
bool repair_is_needed(const struct jobs *js, const struct journal_reader *r);

int repair(struct journal *j, struct repair_result *ret, struct gd_error *err);

#endif
