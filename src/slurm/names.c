/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "slurm/coordinator_core.h"

#define NAME_OF(table, value)                                                                                          \
	((size_t)(value) < sizeof(table) / sizeof(*(table)) && (table)[value] ? (table)[value] : "unknown")

const char *frame_kind_name(enum frame_kind kind)
{
	static const char *const names[] = {
		[FRAME_HELLO] = "hello",
		[FRAME_WELCOME] = "welcome",
		[FRAME_REFUSE] = "refuse",
		[FRAME_GRANT] = "grant",
		[FRAME_BEGUN] = "begun",
		[FRAME_REJECT] = "reject",
		[FRAME_FREED] = "freed",
		[FRAME_END] = "end",
		[FRAME_END_ACK] = "end-ack",
		[FRAME_HEARTBEAT] = "heartbeat",
		[FRAME_RENEW] = "renew",
		[FRAME_CANCEL] = "cancel",
		[FRAME_RELEASE] = "release",
		[FRAME_ENDING] = "ending",
		[FRAME_BYE] = "bye",
	};
	return NAME_OF(names, kind);
}

const char *attempt_outcome_name(enum attempt_outcome outcome)
{
	static const char *const names[] = {
		[OUTCOME_COMPLETED] = "completed",
		[OUTCOME_FAILED] = "failed",
		[OUTCOME_CANCELLED] = "cancelled",
		[OUTCOME_INTERRUPTED] = "interrupted",
	};
	return NAME_OF(names, outcome);
}

const char *death_proof_name(enum death_proof proof)
{
	static const char *const names[] = {
		[PROOF_NONE] = "none",
		[PROOF_LEASE] = "lease",
		[PROOF_UNTIL] = "until",
		[PROOF_BOOT] = "boot",
		[PROOF_SLURM] = "slurm",
	};
	return NAME_OF(names, proof);
}

const char *pilot_state_name(enum pilot_state state)
{
	static const char *const names[] = {
		[PILOT_STATE_EXPECTED] = "expected",
		[PILOT_STATE_JOINING] = "joining",
		[PILOT_STATE_READY] = "ready",
		[PILOT_STATE_ENDING] = "ending",
		[PILOT_STATE_AWAY] = "away",
		[PILOT_STATE_DEAD] = "dead",
		[PILOT_STATE_GONE] = "gone",
	};
	return NAME_OF(names, state);
}

/* "CANCELLED by 1000" is CANCELLED. */
static bool is_word(const char *text, const char *word)
{
	size_t size = strlen(word);
	return strncmp(text, word, size) == 0 && (!text[size] || text[size] == ' ');
}

enum listed_state listed_state_parse(const char *word)
{
	static const char *const terminal[] = {
		"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE", "OUT_OF_MEMORY"};
	if (strcmp(word, "PENDING") == 0)
		return LISTED_PENDING;
	if (strcmp(word, "RUNNING") == 0)
		return LISTED_RUNNING;
	if (strcmp(word, "COMPLETING") == 0)
		return LISTED_COMPLETING;
	for (size_t i = 0; i < sizeof(terminal) / sizeof(*terminal); i++)
		if (is_word(word, terminal[i]))
			return LISTED_TERMINAL;
	return LISTED_OTHER;
}

const struct listed_job *listing_find_job(const struct slurm_listing *l, uint64_t slurm_job)
{
	for (size_t i = 0; i < l->num_jobs; i++)
		if (l->jobs[i].slurm_job == slurm_job)
			return &l->jobs[i];
	return NULL;
}

const struct listed_node *listing_find_node(const struct slurm_listing *l, const char *name)
{
	for (size_t i = 0; i < l->num_nodes; i++)
		if (strcmp(l->nodes[i].name, name) == 0)
			return &l->nodes[i];
	return NULL;
}
