/* SPDX-License-Identifier: MIT */
/*
 * The outbox of a pilot: a file on the shared file system with a line for each end of an attempt, so that no end is
 * lost with the pilot or its connection.
 *
 * Only the pilot's agent writes to it. The file and its first line are synced before the pilot connects to its
 * coordinator, so if a coordinator does not find it, nothing is proven, and the coordinator waits. Lines are sealed
 * like those of a journal (seal.h), numbered from 1. The coordinator reopens the file for each read, which makes an NFS
 * client ask the server.
 */
#ifndef SLURM_OUTBOX_H
#define SLURM_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* The folder of outboxes, in the queue's folder. */
#define OUTBOX_DIRECTORY "pilots"

struct pilot_outbox {
	int fd; /* -1: none */
	uint64_t next;
	int64_t size; /* of complete lines */
	struct text line;
};
#define OUTBOX_NONE ((struct pilot_outbox){.fd = -1})

/* Creates `pilots/NAME`, which must not exist, with its first line, and syncs both. header: an object. */
int outbox_create(struct pilot_outbox *o, int dir_fd, const char *name, const char *header);
void outbox_close(struct pilot_outbox *o);

/*
 * Appends objects, with a newline between two, and syncs once. On failure all that was written is removed, and the call
 * can be repeated.
 */
int outbox_append(struct pilot_outbox *o, const char *lines, size_t size);

/* Called for each line after the first, without its seal but with the closing brace. A nonzero result stops reading. */
typedef int outbox_fn(void *context, const char *line, size_t size);

/*
 * Reads all lines of a pilot that is dead, or of a live one up to now. 0 only if the first line and all after it are
 * intact; an incomplete last line was never synced and is ignored.
 *
 * Any other result proves nothing, and the coordinator waits: -ENOENT (the file or its directory does not exist),
 * -ESTALE, -EIO, -EACCES… from the file system; -ENODATA: the first line is missing; -EBADMSG: damaged. Damaged lines
 * are skipped: fn was called for all intact ones.
 */
int outbox_read(int dir_fd, const char *name, outbox_fn *fn, void *context);

#endif
