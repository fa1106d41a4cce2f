/* SPDX-License-Identifier: MIT */
/* Functions of the pool for the dispatcher and the launcher, in addition to the public ones. */
#ifndef POOL_POOL_HINTS_H
#define POOL_POOL_HINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

/* Payloads of at least this size are copied without the lock, and their number is limited. */
#define POOL_LARGE ((size_t)64 << 10)

/* gd_pool_open() for a caller that has checked output_dir, or whose user accepts a folder that others can change. */
int pool_open_trusted(const struct gd_options *options, const struct gd_callbacks *callbacks, struct gd_pool **ret,
	struct gd_error *err);

/*
 * For the thread that polls, before it sleeps: spins for some microseconds, because a wake-up costs more. True if there
 * is something to poll for.
 */
bool pool_look(struct gd_pool *p);

/*
 * Before the first poll: the pool belongs to a dispatcher's run. Tasks that are cancelled before they begin have no
 * callback if the program has no on_cancelled, and nowait of tasks is ignored. on_gone is called when no worker is
 * left, just before on_exit.
 */
void pool_serve_run(struct gd_pool *p, void (*on_gone)(void *context), void *context);

/*
 * gd_pool_reserve() for a task that needs a certain worker: on this GPU (-1: any), and only one that has
 * no other task if `idle`. It stays there, even for retries, as long as the GPU has a worker. It has the pool's time
 * limit. Small tasks only. -EAGAIN: no such worker takes one now; -ENXIO: the GPU has no worker left.
 */
int pool_reserve_on(struct gd_pool *p, size_t size, int gpu, bool idle, struct gd_draft **ret, void **ret_data);

#endif
