/* SPDX-License-Identifier: MIT */
/*
 * Problems that may pass, such as a full disk. The runner says so once, pauses and tries
 * again; it says once more when all of them are over.
 */
#ifndef QUEUE_RUNNER_RUNNER_TROUBLE_H
#define QUEUE_RUNNER_RUNNER_TROUBLE_H

struct runner;

enum runner_trouble {
	RUNNER_TROUBLE_FOLLOW,
	RUNNER_TROUBLE_WRITE,
	RUNNER_TROUBLE_START,
	RUNNER_TROUBLE_KEEPER,
	RUNNER_TROUBLE_END,
	RUNNER_TROUBLE_GPUS,
};

/* No job is started for a while. code: a negative errno value, for the message. */
void runner_pause(struct runner *r, enum runner_trouble trouble, int code);
/* where: appended to what the message says was being done. */
void runner_pause_at(struct runner *r, enum runner_trouble trouble, const char *where, int code);
/* works: bits 1u << enum runner_trouble, for each kind that is over. */
void runner_works(struct runner *r, unsigned works);

#endif
