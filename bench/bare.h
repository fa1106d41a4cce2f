/* SPDX-License-Identifier: MIT */
/* What the dispatcher is measured against: its rings without it, a futex without rings, memcpy without either. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

/* Tasks per second, there and back, over bare pairs of rings to forked processes. */
double bare_rings(int workers, size_t payload, uint64_t tasks);

/* Median and 99th percentile of a round trip between two processes by futex, in microseconds. */
void bare_futex(int rounds, double *ret_p50, double *ret_p99);

/* Bytes per second of memcpy in one process, for blocks of this size that do not stay in the cache. */
double bare_memcpy(size_t block);

/*
 * Puts this process on the which-th of the processors it may use; -1: on any of
 * them again. A round trip between two processors takes ten times as long as on
 * one: what is compared must not leave that to the scheduler.
 */
void pin(int which);

/* In place; for the percentiles here and there. */
double percentile(double *values, size_t count, double fraction);

#endif
