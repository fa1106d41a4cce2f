/* SPDX-License-Identifier: MIT */
/*
 * The settings of a launch: strings, because commands, programs and the fingerprint of
 * a run need them as text.
 */
#ifndef LAUNCH_SETTINGS_H
#define LAUNCH_SETTINGS_H

#include "gpu_dispatch_launch.h"

/* -EINVAL: the i-th setting has no name or no value, or its value is not a string. */
int settings_check(const struct gd_setting *settings, size_t i, struct gd_error *err);

/*
 * A copy in which every value is a string and every key occurs once, with its last
 * value. One allocation, release with free(). All settings have passed settings_check().
 */
int settings_copy(const struct gd_setting *settings, size_t count, struct gd_setting **ret, size_t *ret_count);

#endif
