/* SPDX-License-Identifier: MIT */
/* Which GPU each worker of a pool gets, and how it is bound to it. */
#ifndef POOL_BINDING_H
#define POOL_BINDING_H

#include "gpu_dispatch.h"

struct binding {
	int gpu;
	int device;            /* the number by which the worker opens its GPU */
	enum gd_vendor vendor; /* 0: unknown */
	int64_t seed;
	struct gd_env_change *changes; /* of the worker's environment */
};

struct bindings {
	struct binding *items; /* one per worker, in the order of the slots */
	size_t count;
};

/*
 * The workers that the options ask for. With GD_BIND_NONE and GPUs given by their
 * numbers, no driver is called. -ENODEV if there is no such GPU, -EINVAL for too
 * many workers. Release with bindings_finish().
 */
int bindings_choose(const struct gd_options *o, struct bindings *ret, struct gd_error *err);
void bindings_finish(struct bindings *b);

#endif
