/* SPDX-License-Identifier: MIT */
/*
 * The inputs of the runner's scheduler, published for `gpuq why`, `status`, `top` and the web page: the file
 * `schedule` next to the locks. It is replaced by rename, only its owner can read it, and it is written a few times a
 * second at most.
 */
#ifndef QUEUE_RUNNER_PUBLISHED_H
#define QUEUE_RUNNER_PUBLISHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/schedule/scheduler.h"

#define PUBLISHED_FILE "schedule"

/* The contents of the file besides the scheduler's inputs. */
struct published {
	pid_t pid;
	char host[65];
	int64_t written_ms; /* modification time of the file, not part of its text */
	char pause[256];    /* why the runner starts nothing at all; "": it starts jobs */
	char note[256];     /* additional information about jobs that wait for a GPU; "": none */
};

/* The file's text. */
void published_format(struct text *t, const struct published *p, const struct scheduler *s);
/* Replaces the file. 0 or a negative errno value. */
int published_write(int dir_fd, const char *data, size_t size);
/* `s` must be new. -ENOENT, -EPERM (another user could have written it), -EBADMSG… */
int published_read(int dir_fd, struct published *ret, struct scheduler *s);
/* Whether the last runner ran the queue on a cluster. */
bool published_is_cluster(int dir_fd);
int published_parse(const char *data, size_t size, struct published *ret, struct scheduler *s);

#endif
