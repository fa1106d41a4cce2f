/* SPDX-License-Identifier: MIT */
/* The options of a pool: checked, completed with defaults, and deeply copied. */
#ifndef POOL_OPTIONS_H
#define POOL_OPTIONS_H

#include "gpu_dispatch.h"

#define OPTIONS_MOST_MS (INT64_MAX / 4000000) /* still far from overflow in nanoseconds */

/*
 * A copy that owns its strings and lists (not the hooks, the context and the
 * callbacks), with every default filled in. -EINVAL and a message for invalid options. Release with options_free().
 */
int options_copy(const struct gd_options *options, struct gd_options **ret, struct gd_error *err);
void options_free(struct gd_options *options);

/* Frees the settings alone: a pool has packed them, and they may be large. */
void options_free_settings(struct gd_options *options);

/* Checks the caller's callbacks and copies them. */
int callbacks_read(struct gd_callbacks *ret, const struct gd_callbacks *callbacks, struct gd_error *err);

#endif
