/* SPDX-License-Identifier: MIT */
/* A launch as text: gd_launch_print_summary() and gd_launch_print_progress() are the public part. */
#ifndef LAUNCH_PRINT_H
#define LAUNCH_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "gpu_dispatch_launch.h"

/* gd_launch_print_summary(), with or without the list of failures. */
int launch_print_summary(const struct gd_launch_summary *summary, bool failures, FILE *out);

#endif
