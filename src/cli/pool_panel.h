/* SPDX-License-Identifier: MIT */
/*
 * The live panel of a command that runs a pool: gpuq launch and gpuq map.
 *
 * A picture is pool_panel_begin(), pool_panel_put_worker() for each worker, and pool_panel_draw(). Until the panel is
 * destroyed, the standard output and standard error of this process and its workers appear above it.
 */
#ifndef CLI_POOL_PANEL_H
#define CLI_POOL_PANEL_H

#include <stddef.h>

#include "gpu_dispatch.h"
#include "view/model/model.h"

struct pool_panel;

/* Finished work of a GPU. */
struct pool_panel_counts {
	uint64_t completed, failed;
};

/* fd must be a terminal. NULL: a panel is not possible. */
struct pool_panel *pool_panel_create(int fd);
/* Sets the totals, except start_ns and time_ns, which the panel sets. Reads new figures of the GPUs. */
void pool_panel_begin(struct pool_panel *p, const struct view_work *work);
/* task NULL: the worker is idle. name NULL: that of the GPU. counts NULL: use the worker's statistics. */
void pool_panel_put_worker(struct pool_panel *p, const struct gd_worker_stats *w, const char *task, const char *name,
	const struct pool_panel_counts *counts);
void pool_panel_draw(struct pool_panel *p);
/* Prints whole lines above the panel. */
void pool_panel_print(struct pool_panel *p, const char *lines, size_t size);
/* Leaves the last picture on the terminal. NULL is fine. */
void pool_panel_destroy(struct pool_panel *p);

#endif
