/* SPDX-License-Identifier: MIT */
/* The highest attempt seen of each job. The table only grows. */
#ifndef SLURM_ATTEMPT_TABLE_H
#define SLURM_ATTEMPT_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct attempt_table {
	struct attempt_entry {
		uint64_t job; /* 0: free */
		uint32_t attempt;
		uint32_t flags; /* for the caller */
	} * entries;
	size_t count, capacity; /* a power of two, or 0 */
};

void attempt_table_finish(struct attempt_table *t);
/* The entry of a job, or NULL if there is none. Valid until the next attempt_table_add(). */
struct attempt_entry *attempt_table_find(const struct attempt_table *t, uint64_t job);
/* The entry of a job; a new one has attempt 0. NULL if out of memory. */
struct attempt_entry *attempt_table_add(struct attempt_table *t, uint64_t job);

#endif
