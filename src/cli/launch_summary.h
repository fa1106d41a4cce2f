/* SPDX-License-Identifier: MIT */
/* The results of gpuq-launch, as text and as JSON. */
#ifndef CLI_LAUNCH_SUMMARY_H
#define CLI_LAUNCH_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"
#include "gpu_dispatch_launch.h"

/* Prints how many files are skipped because they are done and, if that is all of them, which option processes them
 * again. */
void launch_summary_print_skipped(size_t skipped, bool all, FILE *out);
/* One JSON object and a newline. */
void launch_summary_format(struct text *t, const struct gd_launch_summary *s);

#endif
