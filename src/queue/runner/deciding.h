/* SPDX-License-Identifier: MIT */
/* Which jobs start: the scheduler, the state that prevents all starts, and what was published. */
#ifndef QUEUE_RUNNER_DECIDING_H
#define QUEUE_RUNNER_DECIDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct loop_source;
struct scheduler;

/* The last reported reason why a job waits, for --verbose. */
struct told_reason {
	uint64_t id, hash; /* the job, and a hash of the message */
};
#define RUNNER_TOLD_REASONS 8

struct runner_deciding {
	struct scheduler *scheduler;
	bool must_place;
	bool incomplete;         /* out of memory: pending jobs may be missing in the scheduler */
	uint64_t pause_until_ns; /* no job is started before this time; 0: no pause */
	uint64_t failures;
	struct loop_source *begin; /* timer for the next begin time of a job */
	int64_t said_begin_ms;     /* the begin time that was last reported */

	struct loop_source *publish;
	bool publish_due; /* the timer is set */
	struct text published;
	uint64_t published_ns, published_generation;
	char published_pause[256];
	struct told_reason told[RUNNER_TOLD_REASONS]; /* reported by runner_debug_waiting() */
};

#endif
