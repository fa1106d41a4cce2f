/* SPDX-License-Identifier: MIT */
/*
 * Moving finished jobs from a journal to FILE.archive next to it.
 *
 * Under the append lock, a new file with all other lines is written and synced and replaces the journal. Readers finish
 * the old file and then begin with the new one. Lines of commands files whose jobs are pruned are recorded in `seen`
 * lines. Jobs that a remaining job waits for, or waited for, stay.
 */
#ifndef QUEUE_JOURNAL_PRUNE_H
#define QUEUE_JOURNAL_PRUNE_H

#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/journal/numbers.h"

struct prune_choice {
	int64_t before_ms;             /* prune jobs that ended at this time or before */
	const struct number_set *only; /* only jobs with these ids; NULL: all */
};

/* Chooses the jobs that prune() removes: drop[i] is for js->by_id[i]. Returns their number. */
uint64_t prune_choose(const struct jobs *js, const struct prune_choice *choice, bool *drop);

/* A git worktree created for jobs that were all pruned. */
struct pruned_tree {
	char *path, *commit;
};

struct prune_result {
	uint64_t pruned, kept;
	struct number_set ids; /* ids of the pruned jobs */
	struct pruned_tree *trees;
	size_t num_trees;
};
void prune_result_finish(struct prune_result *r);

int prune(struct journal *j, const struct prune_choice *choice, struct prune_result *ret, struct gd_error *err);

#endif
