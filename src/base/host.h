/* SPDX-License-Identifier: MIT */
/*
 * The main memory and CPUs that this process may use: the minimum of the machine's, the limits of the cgroups above the
 * process (version 1 and 2), and, for CPUs, the process's affinity.
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host_limits {
	bool memory_known;
	uint64_t memory_total_bytes;
	uint64_t memory_available_bytes; /* without swapping; memory that holds clean pages of files counts */
	unsigned cpus;                   /* at least 1 */
};

/* proc, sys: NULL, or directories in place of /proc and /sys. Cannot fail: limits that cannot be read are ignored. */
void host_read(const char *proc, const char *sys, struct host_limits *ret);

#endif
