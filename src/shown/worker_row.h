/* SPDX-License-Identifier: MIT */
/* A worker of the pool as a row of the panel. The caller adds the name of the task and the figures of the GPU. */
#ifndef SHOWN_WORKER_ROW_H
#define SHOWN_WORKER_ROW_H

#include "gpu_dispatch.h"
#include "view/model/model.h"

enum view_gpu_status worker_status(enum gd_worker_state state);
/* The strings of the row belong to `w`. */
struct view_gpu worker_row(const struct gd_worker_stats *w);

#endif
