/* SPDX-License-Identifier: MIT */
/*
 * How much work a file is: its seconds of audio if they are known, otherwise
 * estimated from its size, with the mean seconds per byte of the files whose seconds
 * are known. If no file's seconds are known: bytes.
 */
#ifndef LAUNCH_WORKLOAD_H
#define LAUNCH_WORKLOAD_H

#include "gpu_dispatch_launch.h"

static inline bool found_has_seconds(const struct gd_found *file)
{
	return file->known & GD_KNOWN_SECONDS;
}

static inline void found_set_seconds(struct gd_found *file, double seconds)
{
	file->known |= GD_KNOWN_SECONDS;
	file->seconds = seconds;
}

/* -EINVAL: a file whose size was not set. */
int found_check(const struct gd_found *const *files, size_t count);

/* Seconds per byte of the files whose seconds are known; 0 if there are none. */
double workload_seconds_per_byte(const struct gd_found *const *files, size_t count);

static inline double workload_weight(const struct gd_found *file, double seconds_per_byte)
{
	if (seconds_per_byte <= 0)
		return (double)file->size_bytes;
	return found_has_seconds(file) ? file->seconds : (double)file->size_bytes * seconds_per_byte;
}

#endif
