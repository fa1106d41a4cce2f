/* SPDX-License-Identifier: MIT */
/*
 * Routes all callbacks of a pool or a run to one function, with their kind. Rigs that record callbacks are built on it.
 */
#ifndef TESTS_SUPPORT_CALLBACKS_H
#define TESTS_SUPPORT_CALLBACKS_H

#include "gpu_dispatch.h"

enum callback_kind {
	CALLBACK_SUCCESS = 1, /* up to CALLBACK_CANCELLED: the end of a task */
	CALLBACK_ERROR,
	CALLBACK_TIMEOUT,
	CALLBACK_CANCELLED,
	CALLBACK_START,
	CALLBACK_SETUP_FAIL,
	CALLBACK_CLEANUP_FAIL,
	CALLBACK_MESSAGE,
	CALLBACK_EXIT, /* on_exit, which has no event */
	CALLBACK_KINDS,
};

struct callbacks {
	void *context; /* for the functions below */
	int (*on_event)(void *context, enum callback_kind kind, const struct gd_event *event);
	void (*on_exit)(void *context, const struct gd_stats *stats);
};

/* Installs all callbacks. `c` must live as long as the pool. */
void callbacks_install(struct callbacks *c, struct gd_callbacks *ret);

/* For gd_pool_submit() and gd_pool_reserve(): -EAGAIN instead of waiting. */
#define NOWAIT (&(const struct gd_task_options){.size = sizeof(struct gd_task_options), .nowait = 1})

#endif
