/* SPDX-License-Identifier: MIT */
/*
 * The options of a pool: checked and completed with defaults.
 *
 * A pool borrows them while it is opened: settings are packed, and the warden is forked with the rest. Only a
 * dispatcher, which opens a pool for each run, has a copy of its own.
 */
#ifndef POOL_OPTIONS_H
#define POOL_OPTIONS_H

#include "gpu_dispatch.h"

#define OPTIONS_MOST_MS (INT64_MAX / 4000000) /* still far from overflow in nanoseconds */

/*
 * -EINVAL and a message for invalid options; otherwise *ret has every default filled in. Strings and lists are still
 * the caller's. The hooks are read into *ret_ops, to which ret->worker points.
 */
int options_read(
	const struct gd_options *options, struct gd_options *ret, struct gd_worker_ops *ret_ops, struct gd_error *err);

/*
 * The same as a copy that owns its strings and lists (not the hooks, the context and the
 * callbacks). Release with options_free().
 */
int options_copy(const struct gd_options *options, struct gd_options **ret, struct gd_error *err);
void options_free(struct gd_options *options);

/* Checks the caller's callbacks and copies them. */
int callbacks_read(struct gd_callbacks *ret, const struct gd_callbacks *callbacks, struct gd_error *err);

#endif
