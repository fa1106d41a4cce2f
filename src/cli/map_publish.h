/* SPDX-License-Identifier: MIT */
/* How far gpuq map is, for the views of other processes. */
#ifndef CLI_MAP_PUBLISH_H
#define CLI_MAP_PUBLISH_H

#include "cli/run_file.h"
#include "launch/map.h"

/* Publishes if it is time. */
void map_publish(struct run_file *f, const struct map_progress *progress);
/* At once: what the run has done in all. */
void map_publish_end(struct run_file *f, const struct map_summary *summary);

#endif
