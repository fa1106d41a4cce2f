/* SPDX-License-Identifier: MIT */
/*
 * The process that syncs the journal for the runner: a sync takes too long for the runner's loop.
 *
 * One sync serves all requests that arrived before it began, and is answered once. A runner does not read the
 * answers: ends survive a power cut only as far as the disk keeps up. A coordinator does. An answer for which the
 * socket has no room is dropped. The process leaves when its end of the socket is closed, after one more sync.
 */
#ifndef QUEUE_KEEPER_SYNCER_H
#define QUEUE_KEEPER_SYNCER_H

#include <stdint.h>

struct syncer_answer {
	uint32_t requests; /* that this sync served */
	int32_t result;    /* 0 or a negative errno value */
};

/* In the new process; fd: its end of the socket. */
_Noreturn void syncer_main(int parent_fd, const char *name, int fd);

/*
 * Asks for a sync, at the runner's end of the socket. Returns 0 also if the socket is full, because then a sync is
 * still to come. -EPIPE… where the process is gone.
 */
int syncer_request(int fd);

#endif
