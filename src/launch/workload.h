/* SPDX-License-Identifier: MIT */
/*
 * How much work a file is: its seconds of audio where they are known, else what its
 * size makes of them, at the mean of those that are known. Where none is known, bytes.
 */
#ifndef LAUNCH_WORKLOAD_H
#define LAUNCH_WORKLOAD_H

#include "gpu_dispatch_launch.h"

/* Seconds per byte of the files whose seconds are known; 0 where none is. */
double workload_seconds_per_byte(const struct gd_found *files, size_t count);

static inline double workload_weight(const struct gd_found *file, double seconds_per_byte)
{
	if (seconds_per_byte <= 0)
		return (double)file->size_bytes;
	return file->seconds >= 0 ? file->seconds : (double)file->size_bytes * seconds_per_byte;
}

#endif
