/* SPDX-License-Identifier: MIT */
/*
 * A program that a worker runs: it leads a process group of its own and dies with
 * the worker. Its standard error goes to the worker's, and the end of it is kept
 * for the words of a failure.
 *
 * In a worker only: child_end() ends every process below this one.
 */
#ifndef LAUNCH_CHILD_H
#define LAUNCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pidref.h"

struct child {
	struct pidref process;
	int in;  /* to its standard input, non-blocking; -1: that is /dev/null */
	int out; /* from its standard output, non-blocking; -1: that is the worker's */
	int log; /* from its standard error, non-blocking; -1 once nobody holds it open any more */
	int status;
	size_t tail_size;
	char tail[2048];
};

#define CHILD_NONE ((struct child){.process = PIDREF_NONE, .in = -1, .out = -1, .log = -1})

/*
 * Starts argv, looked for in $PATH; `talks`: with pipes for its input and output. A
 * negative errno value where there is no such program, or it cannot be executed.
 */
int child_start(struct child *c, char *const argv[], bool talks);

/* Passes on what it has said on standard error so far. */
void child_read_log(struct child *c);

/* To its group, also if that is stopped. */
void child_signal(struct child *c, int signal);

/* Ends it, and whatever it has left behind, and closes the descriptors; then status is there as wait(2) has it. */
void child_end(struct child *c);

/* How it ended: "exit 3: last line of its standard error", "SIGSEGV", … */
void child_words(const struct child *c, char *to, size_t room);

#endif
