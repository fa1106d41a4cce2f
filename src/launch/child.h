/* SPDX-License-Identifier: MIT */
/*
 * A program that a worker runs: it leads its own process group and dies with the worker. Its standard error goes to the
 * worker's; the last bytes are kept for failure messages.
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
	int in;  /* to its standard input, non-blocking; -1: its input is /dev/null */
	int out; /* from its standard output, non-blocking; -1: it uses the worker's */
	int log; /* from its standard error, non-blocking; -1 when all writers have closed it */
	int status;
	size_t tail_size;
	char tail[2048];
};

#define CHILD_NONE ((struct child){.process = PIDREF_NONE, .in = -1, .out = -1, .log = -1})

/*
 * Starts argv, searched in $PATH; `talks`: with pipes for its input and output. A negative errno value if the program
 * does not exist or cannot be executed.
 */
int child_start(struct child *c, char *const argv[], bool talks);

/* Passes on its standard error so far. */
void child_read_log(struct child *c);

/* Signals its group, even if the group is stopped. */
void child_signal(struct child *c, int signal);

/* Ends it and all processes that it left behind, closes the descriptors and sets `status` as wait(2) does. */
void child_end(struct child *c);

/* How it ended: "exit 3: last line of its standard error", "SIGSEGV", … */
void child_words(const struct child *c, char *to, size_t room);

#endif
