/* SPDX-License-Identifier: MIT */
/* Publishes the progress of gpuq launch for the views of other processes. */
#ifndef CLI_LAUNCH_PUBLISH_H
#define CLI_LAUNCH_PUBLISH_H

#include "cli/run_file.h"
#include "gpu_dispatch_launch.h"

/* Publishes if an update is due. */
void launch_publish(struct run_file *f, const struct gd_launch_progress *progress);
/* Publishes the final totals at once. */
void launch_publish_end(struct run_file *f, const struct gd_launch_summary *summary);

#endif
