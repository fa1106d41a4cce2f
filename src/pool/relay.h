/* SPDX-License-Identifier: MIT */
/*
 * Passes the callbacks of a run from the pool to the program.
 *
 * A program without on_cancelled is not notified of cancelled tasks that never began; those that had begun end in
 * on_error. on_gone is called before on_exit, while the pool still exists. Everything else is passed on as it is.
 */
#ifndef POOL_RELAY_H
#define POOL_RELAY_H

#include "gpu_dispatch.h"

struct relay {
	struct gd_callbacks given;
	void (*on_gone)(void *context); /* all workers have ended */
	void *context;
};

/* The callbacks for the pool. `r`, filled by the caller, must outlive the pool. */
struct gd_callbacks relay_callbacks(struct relay *r);

#endif
