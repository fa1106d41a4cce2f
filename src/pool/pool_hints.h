/* SPDX-License-Identifier: MIT */
/* What the dispatcher knows of a pool besides the public calls. */
#ifndef POOL_POOL_HINTS_H
#define POOL_POOL_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct gd_draft;
struct gd_pool;

/* A payload from this size on is copied without the lock, and bounded in number. */
#define POOL_LARGE ((size_t)64 << 10)

/*
 * For the thread that polls, if it would sleep next: looks for answers for some
 * microseconds, as a wake-up costs more than that. True if there is something to poll for.
 */
bool pool_look(struct gd_pool *p);

/*
 * gd_pool_reserve() for a task of which it matters which worker gets it: on this GPU (-1: any), and only one that has
 * no other task if `idle`. It stays there, also when it is tried again, as long as the GPU has a worker. The pool's
 * time limit; small tasks only. -EAGAIN: no such worker takes one now; -ENXIO: the GPU has no worker any more.
 */
int pool_reserve_on(struct gd_pool *p, size_t size, int gpu, bool idle, struct gd_draft **ret, void **ret_data);

#endif
