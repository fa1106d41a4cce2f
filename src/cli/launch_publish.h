/* SPDX-License-Identifier: MIT */
/* How far gpuq launch is, for the views of other processes. */
#ifndef CLI_LAUNCH_PUBLISH_H
#define CLI_LAUNCH_PUBLISH_H

#include "cli/run_file.h"
#include "gpu_dispatch_launch.h"

/* Publishes if it is time. */
void launch_publish(struct run_file *f, const struct gd_launch_progress *progress);
/* At once: what the run has done in all. */
void launch_publish_end(struct run_file *f, const struct gd_launch_summary *summary);

#endif
