/* SPDX-License-Identifier: MIT */
/* The kinds of worker inside gpuq-worker. The context of their hooks is a struct launch_worker. */
#ifndef LAUNCH_WORKER_HOOKS_H
#define LAUNCH_WORKER_HOOKS_H

#include "launch/worker.h"

extern const struct gd_worker_ops template_worker_ops;
extern const struct gd_worker_ops program_worker_ops;
extern const struct gd_worker_ops items_worker_ops;

#endif
