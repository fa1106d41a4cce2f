/* SPDX-License-Identifier: MIT */
#include "queue/journal/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const state_names[JOB_STATES] = {
	[JOB_PENDING] = "pending",
	[JOB_HELD] = "held",
	[JOB_RUNNING] = "running",
	[JOB_COMPLETED] = "completed",
	[JOB_FAILED] = "failed",
	[JOB_CANCELLED] = "cancelled",
};

const char *job_state_name(enum job_state state)
{
	return state_names[state];
}

int job_state_parse(const char *name, size_t size, enum job_state *ret)
{
	for (size_t i = 0; i < JOB_STATES; i++)
		if (size && *name == *state_names[i] && strlen(state_names[i]) == size &&
			memcmp(state_names[i], name, size) == 0) {
			*ret = (enum job_state)i;
			return 0;
		}
	return -EINVAL;
}

void job_stuck_words(uint64_t id, char words[JOB_STUCK_ROOM])
{
	snprintf(words, JOB_STUCK_ROOM, "job %llu there " REASON_STUCK, (unsigned long long)id);
}

bool job_is_final(const struct job *j)
{
	return j->state == JOB_COMPLETED || j->state == JOB_FAILED || j->state == JOB_CANCELLED;
}

bool job_has_try_left(const struct job *j)
{
	return !j->cancel_requested && j->num_attempts - j->spared <= (uint32_t)j->wish->retries;
}

const char *job_reason(const struct job *j)
{
	if (j->state == JOB_RUNNING)
		return j->stuck ? REASON_STUCK : NULL;
	if (j->reason)
		return j->reason;
	return j->attempts && job_is_final(j) ? j->attempts->reason : NULL;
}
