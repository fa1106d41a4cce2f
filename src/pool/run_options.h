/* SPDX-License-Identifier: MIT */
/* The options of a dispatcher, combined with those of one run. */
#ifndef POOL_RUN_OPTIONS_H
#define POOL_RUN_OPTIONS_H

#include "gpu_dispatch.h"

/*
 * Fills *o, which borrows the strings and arrays of both. *ret: the merged settings, if
 * the run has any; release with free() after *o. `options`: filled by options_copy().
 */
int run_options_fill(const struct gd_options *options, const struct gd_run *run, struct gd_options *o,
	struct gd_setting **ret, struct gd_error *err);

#endif
