/* SPDX-License-Identifier: MIT */
/*
 * The process that syncs the journal for the runner: a sync takes too long for the runner's loop.
 *
 * One sync serves all requests that arrived before it began, and is answered once. A runner does not
 * read the answers: ends survive a power cut only as far as the disk keeps up. A coordinator reads
 * them. An answer that does not fit into the socket is dropped. When the socket is closed, the process
 * does one more sync and exits.
 */
#ifndef QUEUE_KEEPER_SYNCER_H
#define QUEUE_KEEPER_SYNCER_H

#include <stdint.h>

struct syncer_answer {
	uint32_t requests; /* number of requests served by this sync */
	int32_t result;    /* 0 or a negative errno value */
};

/* In the new process; fd: its end of the socket. */
_Noreturn void syncer_main(int parent_fd, const char *name, int fd);

/*
 * Requests a sync, at the runner's end of the socket. Also returns 0 if the socket is full, because
 * then a sync is still to come. -EPIPE… if the process is gone.
 */
int syncer_request(int fd);

#endif
