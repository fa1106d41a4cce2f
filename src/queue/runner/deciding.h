/* SPDX-License-Identifier: MIT */
/* Which jobs start: the scheduler decides, the rest says when nothing may start at all, and what was published. */
#ifndef QUEUE_RUNNER_DECIDING_H
#define QUEUE_RUNNER_DECIDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct loop_source;
struct scheduler;

/* Of a job that waits, for --verbose. */
struct told_reason {
	uint64_t id, hash; /* the job, and the words */
};
#define RUNNER_TOLD_REASONS 8

struct runner_deciding {
	struct scheduler *scheduler;
	bool must_place;
	bool incomplete;         /* no memory: pending jobs may be missing in the scheduler */
	uint64_t pause_until_ns; /* no job is started before this time; 0: no pause */
	uint64_t failures;
	struct loop_source *begin; /* at the next time at which a job begins */
	int64_t said_begin_ms;     /* that time was reported */

	struct loop_source *publish;
	bool publish_due; /* the timer is set */
	struct text published;
	uint64_t published_ns, published_generation;
	const char *published_pause;
	struct told_reason told[RUNNER_TOLD_REASONS]; /* by runner_debug_waiting() */
};

#endif
