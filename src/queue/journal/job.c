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
	[JOB_UNKNOWN] = "unknown",
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

const char *job_group_name(uint64_t group, char name[JOB_GROUP_ROOM])
{
	snprintf(name, JOB_GROUP_ROOM, "g%llu", (unsigned long long)group);
	return name;
}

bool job_tag_is_valid(const char *tag, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		char c = tag[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!letter && (!c || !strchr("_.:/@+=-", c)))
			return false;
	}
	return size > 0;
}

bool job_has_tag(const struct job *j, const char *tag, size_t size)
{
	for (const char *p = j->wish->tags; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strcspn(p, ",") == size && memcmp(p, tag, size) == 0)
			return true;
	}
	return false;
}

bool keeper_is_here(const struct keeper_info *k, const struct machine *here)
{
	return !k || (!k->is_pilot && (!*k->machine.host || strcmp(k->machine.host, here->host) == 0));
}

bool job_is_final(const struct job *j)
{
	return j->state == JOB_COMPLETED || j->state == JOB_FAILED || j->state == JOB_CANCELLED;
}

bool job_has_try_left(const struct job *j)
{
	return !j->lease && !j->cancel_requested && j->num_attempts - j->spared <= (uint32_t)j->wish->retries;
}

bool job_attempt_is_idle(const struct job_attempt *a)
{
	return a->state == JOB_RUNNING && a->idle && a->idle->num_gpus > 0;
}

int64_t job_attempt_idle_ms(const struct job_attempt *a, int64_t now_ms)
{
	if (!a->idle)
		return 0;
	int64_t end_ms = a->state == JOB_RUNNING ? now_ms : a->end_ms;
	int64_t more_ms = end_ms > a->idle->at_ms ? end_ms - a->idle->at_ms : 0;
	return a->idle->idle_ms + more_ms * (int64_t)a->idle->num_gpus;
}

uint32_t job_next_attempt(const struct job *j)
{
	uint32_t last = j->attempts ? j->attempts->attempt : 0;
	return (last > j->num_attempts ? last : j->num_attempts) + 1;
}

const char *job_reason(const struct job *j)
{
	if (j->state == JOB_RUNNING)
		return j->stuck ? REASON_STUCK : NULL;
	if (j->state == JOB_UNKNOWN)
		return REASON_LOST_RECORD;
	if (j->reason)
		return j->reason;
	return j->attempts && job_is_final(j) ? j->attempts->reason : NULL;
}
