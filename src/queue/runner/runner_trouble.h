/* SPDX-License-Identifier: MIT */
/*
 * Temporary problems, such as a full disk. The runner reports each once, pauses and retries; it
 * reports again when all of them are resolved.
 */
#ifndef QUEUE_RUNNER_RUNNER_TROUBLE_H
#define QUEUE_RUNNER_RUNNER_TROUBLE_H

#include "gpu_dispatch.h"

struct runner;

enum runner_trouble {
	RUNNER_TROUBLE_FOLLOW,
	RUNNER_TROUBLE_WRITE,
	RUNNER_TROUBLE_START,
	RUNNER_TROUBLE_KEEPER,
	RUNNER_TROUBLE_END,
	RUNNER_TROUBLE_GPUS,
};

/* Starts no job for a while. code: a negative errno value, for the message. */
void runner_pause(struct runner *r, enum runner_trouble trouble, int code);
/* where: appended to the message's description of the operation. */
void runner_pause_at(struct runner *r, enum runner_trouble trouble, const char *where, int code);
/* error_words(), or for LOCK_BLOCKED of the journal the process that has the lock, in `room`. */
const char *runner_trouble_words(const struct runner *r, int code, struct gd_error *room);
/* works: bits 1u << enum runner_trouble, for each kind that is resolved. */
void runner_works(struct runner *r, unsigned works);

#endif
