/* SPDX-License-Identifier: MIT */
/*
 * Notes from a worker that passes files on to another machine (launch/remote.h), through gd_worker_send(): where its
 * files are processed, and how its last file went there. Both ends have the same version.
 */
#ifndef LAUNCH_REMOTE_NOTE_H
#define LAUNCH_REMOTE_NOTE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "gpu_dispatch.h"

#define REMOTE_NODE_ROOM 64

enum remote_note_kind {
	REMOTE_READY = 1, /* the model is loaded */
	REMOTE_ANSWER,    /* precedes the end of a file */
	/* Nothing processes the file anymore, and it has no result: it goes back to the queue. The process exits, and
	 * its replacement is ready when there is a machine again. */
	REMOTE_PUT_BACK,
};

struct remote_note {
	uint32_t kind;
	int32_t gpu;            /* number on the node */
	uint32_t tries;         /* answer: attempts at the file */
	uint32_t reserved;      /* 0 */
	uint64_t processing_ns; /* answer */
	char node[REMOTE_NODE_ROOM];
};

static inline int remote_note_read(const struct gd_bytes *bytes, struct remote_note *ret)
{
	if (!bytes->data || bytes->size != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, bytes->data, sizeof(*ret));
	return memchr(ret->node, '\0', sizeof(ret->node)) ? 0 : -EBADMSG;
}

#endif
