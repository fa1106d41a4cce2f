/* SPDX-License-Identifier: MIT */
/*
 * Asks Slurm again for the end of the runner's allocation, because its time limit may have been changed. Asks only if a
 * job does not fit into the known time or the end is near, and not often. A separate process asks Slurm; the runner
 * waits for the answer only if it would otherwise exit because the remaining jobs do not fit.
 */
#ifndef QUEUE_RUNNER_RUNNER_END_H
#define QUEUE_RUNNER_RUNNER_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct loop_source;
struct runner;

/* {.fd = -1}: not asking. */
struct runner_end {
	int fd; /* the answer */
	pid_t pid;
	struct loop_source *source;
	char text[64];
	size_t have;
	uint64_t next_ns;     /* not before this, unless the runner is about to exit */
	uint64_t answered_ns; /* 0: never */
};

/* Queries Slurm, if the next query is due. */
void runner_end_look(struct runner *r);
/* The runner has nothing else to do. True: it must wait for an answer of Slurm first. */
bool runner_end_must_wait(struct runner *r);
void runner_end_close(struct runner *r);

#endif
