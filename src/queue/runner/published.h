/* SPDX-License-Identifier: MIT */
/*
 * The inputs of the runner's scheduler, published for `gpuq why`, `status`, `top` and the web page: the file
 * `schedule` next to the locks. It is replaced by rename, only its owner can read it, and it is written a few times a
 * second at most.
 */
#ifndef QUEUE_RUNNER_PUBLISHED_H
#define QUEUE_RUNNER_PUBLISHED_H

#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/schedule/scheduler.h"

#define PUBLISHED_FILE "schedule"

/* What the file says besides the scheduler's inputs. */
struct published {
	pid_t pid;
	char host[65];
	int64_t written_ms; /* when; not in its text */
	char pause[256];    /* why the runner starts nothing at all; "": it does */
	char note[256];     /* what jobs that wait for a GPU should know besides; "": nothing */
};

/* The file's text. */
void published_format(struct text *t, const struct published *p, const struct scheduler *s);
/* -ENOENT, -EPERM (another user could have written it), -EBADMSG… */
int published_write(int dir_fd, const char *data, size_t size);
/* `s` is new. */
int published_read(int dir_fd, struct published *ret, struct scheduler *s);
int published_parse(const char *data, size_t size, struct published *ret, struct scheduler *s);

#endif
