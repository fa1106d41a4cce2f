/* SPDX-License-Identifier: MIT */
/* What the dispatcher knows of a pool besides the public calls. */
#ifndef POOL_POOL_HINTS_H
#define POOL_POOL_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct gd_pool;

/* A payload from this size on is copied without the lock, and bounded in number. */
#define POOL_LARGE ((size_t)64 << 10)

/*
 * For the thread that polls, if it would sleep next: looks for answers for some
 * microseconds, as a wake-up costs more than that. True if there is something to poll for.
 */
bool pool_look(struct gd_pool *p);

#endif
