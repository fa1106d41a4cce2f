/* SPDX-License-Identifier: MIT */
/*
 * Notes from gpuq-worker to the launcher through gd_worker_send(), in addition to the answers. Both have the same
 * version; a note of another size is ignored.
 */
#ifndef LAUNCH_WORKER_NOTE_H
#define LAUNCH_WORKER_NOTE_H

#include <errno.h>
#include <string.h>

#include "gpu_dispatch.h"

struct worker_note {
	uint64_t loading_ns; /* time until the program was ready after a restart during a file */
	char warning[512];   /* for users; "" if there is none */
};

static inline int worker_note_read(const struct gd_bytes *bytes, struct worker_note *ret)
{
	if (!bytes->data || bytes->size != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, bytes->data, sizeof(*ret));
	return memchr(ret->warning, '\0', sizeof(ret->warning)) ? 0 : -EBADMSG;
}

#endif
