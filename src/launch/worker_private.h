/* SPDX-License-Identifier: MIT */
/* The kinds of worker, for worker.c. */
#ifndef LAUNCH_WORKER_PRIVATE_H
#define LAUNCH_WORKER_PRIVATE_H

#include "launch/worker.h"

/* The one whose hooks were asked for last; what a forked worker runs. */
const struct launch_worker *launch_worker_current(void);

extern const struct gd_worker_ops template_worker_ops;
int template_worker_check(const struct launch_worker *worker, struct gd_error *err);

extern const struct gd_worker_ops program_worker_ops;
int program_worker_check(const struct launch_worker *worker, struct gd_error *err);

/* Which hooks it has must be known before it is loaded. */
const struct gd_worker_ops *plugin_worker_ops(const struct launch_worker *worker);
int plugin_worker_check(const struct launch_worker *worker, struct gd_error *err);

#endif
