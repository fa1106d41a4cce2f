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

#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/journal/numbers.h"

struct prune_choice {
	int64_t before_ms;             /* jobs that ended at this time or before */
	const struct number_set *only; /* NULL: all of them; else only the jobs with these ids */
};

/* Which jobs prune() takes out: drop[i] is about js->by_id[i]. Returns how many. */
uint64_t prune_choose(const struct jobs *js, const struct prune_choice *choice, bool *drop);

/* A worktree of git that was made for jobs, all of which were pruned. */
struct pruned_tree {
	char *path, *commit;
};

struct prune_result {
	uint64_t pruned, kept;
	struct number_set ids; /* of the pruned jobs */
	struct pruned_tree *trees;
	size_t num_trees;
};
void prune_result_finish(struct prune_result *r);

int prune(struct journal *j, const struct prune_choice *choice, struct prune_result *ret, struct gd_error *err);

#endif
