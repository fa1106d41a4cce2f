/* SPDX-License-Identifier: MIT */
/* Baselines for the dispatcher's benchmark: bare rings, a bare futex, and memcpy. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

/* Round trips per second over bare pairs of rings to forked processes. */
double bare_rings(int workers, size_t payload, uint64_t tasks);

/* Median and 99th percentile of a round trip between two processes by futex, in microseconds. */
void bare_futex(int rounds, double *ret_p50, double *ret_p99);

/* Bytes per second of memcpy in one process, for blocks of this size that do not stay in the cache. */
double bare_memcpy(size_t block);

/*
 * Pins this process to the which-th of its allowed processors; -1: unpins it. A round trip between two processors takes
 * ten times as long as on one, so comparisons must not leave the choice to the scheduler.
 */
void pin(int which);

/* Sorts the values in place. */
double percentile(double *values, size_t count, double fraction);

#endif
