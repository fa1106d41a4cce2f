/* SPDX-License-Identifier: MIT */
/*
 * Asks Slurm again when the runner's allocation ends: its time limit may have been changed. It asks only if the answer
 * matters, because a job does not fit into the known time or because the end is near, and not often. Slurm is asked in
 * a process of its own, and nothing waits for its answer except the exit of a runner that has only jobs that do not
 * fit.
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

/* Asks if it is time to. */
void runner_end_look(struct runner *r);
/* The runner has nothing else to do. True: it must wait for an answer of Slurm first. */
bool runner_end_must_wait(struct runner *r);
void runner_end_close(struct runner *r);

#endif
