/* SPDX-License-Identifier: MIT */
/* The options of a pool: checked, completed with the defaults, and copied whole. */
#ifndef POOL_OPTIONS_H
#define POOL_OPTIONS_H

#include "gpu_dispatch.h"

/*
 * A copy that owns its strings and lists (not the hooks, the context and the
 * callbacks), with every default filled in. -EINVAL and the words for options
 * that make no sense. Release with options_free().
 */
int options_copy(const struct gd_options *options, struct gd_options **ret, struct gd_error *err);
void options_free(struct gd_options *options);

#endif
