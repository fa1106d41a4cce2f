/* SPDX-License-Identifier: MIT */
/* A worker of the pool as a row of the panel; what it works on, and its GPU's memory, others add. */
#ifndef SHOWN_WORKER_ROW_H
#define SHOWN_WORKER_ROW_H

#include "gpu_dispatch.h"
#include "view/model/model.h"

enum view_gpu_status worker_status(enum gd_worker_state state);
struct view_gpu worker_row(const struct gd_worker_stats *w);

#endif
