/* SPDX-License-Identifier: MIT */
/* Functions of the pool for the dispatcher, beside the public ones. */
#ifndef POOL_POOL_HINTS_H
#define POOL_POOL_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct gd_draft;
struct gd_pool;

/* A payload from this size on is copied without the lock, and bounded in number. */
#define POOL_LARGE ((size_t)64 << 10)

/*
 * For the thread that polls, before it sleeps: spins for some microseconds, because a wake-up costs more. True if there
 * is something to poll for.
 */
bool pool_look(struct gd_pool *p);

/*
 * gd_pool_reserve() for a task that needs a certain worker: on this GPU (-1: any), and only one that has
 * no other task if `idle`. It stays there, also for retries, as long as the GPU has a worker. It has the pool's time
 * limit. Small tasks only. -EAGAIN: no such worker takes one now; -ENXIO: the GPU has no worker left.
 */
int pool_reserve_on(struct gd_pool *p, size_t size, int gpu, bool idle, struct gd_draft **ret, void **ret_data);

#endif
