/* SPDX-License-Identifier: MIT */
/* Publishes the progress of gpuq map for the views of other processes. */
#ifndef CLI_MAP_PUBLISH_H
#define CLI_MAP_PUBLISH_H

#include "cli/run_file.h"
#include "launch/map.h"

/* Publishes if an update is due. */
void map_publish(struct run_file *f, const struct map_progress *progress);
/* Publishes the final totals at once. */
void map_publish_end(struct run_file *f, const struct map_summary *summary);

#endif
