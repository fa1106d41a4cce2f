/* SPDX-License-Identifier: MIT */
/* What the dispatcher does with a pool besides the public calls. By the thread that polls. */
#ifndef POOL_POOL_HINTS_H
#define POOL_POOL_HINTS_H

#include <stdbool.h>

struct gd_pool;

/*
 * For a caller that would sleep next: looks for answers for some microseconds, as a
 * wake-up costs more than that. True if there is something to poll for.
 */
bool pool_look(struct gd_pool *p);

#endif
