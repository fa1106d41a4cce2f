/* SPDX-License-Identifier: MIT */
/*
 * Taking finished jobs out of a journal, into FILE.archive beside it.
 *
 * Under the append lock a new file is written with all other lines, synced and
 * put in the journal's place; whoever follows reads the old one to its end and
 * then begins the new one. Lines of commands files whose jobs are taken out are
 * remembered in `seen` lines. What a job that stays waits for, or waited for, stays.
 */
#ifndef QUEUE_JOURNAL_PRUNE_H
#define QUEUE_JOURNAL_PRUNE_H

#include "queue/journal/journal.h"

/* A worktree of git that was made for jobs, all of which were pruned. */
struct pruned_tree {
	char *path, *commit;
};

struct prune_result {
	uint64_t pruned, kept;
	struct pruned_tree *trees;
	size_t num_trees;
};
void prune_result_finish(struct prune_result *r);

/* Jobs that ended at least older_ms ago. */
int prune(struct journal *j, int64_t older_ms, struct prune_result *ret, struct gd_error *err);

#endif
