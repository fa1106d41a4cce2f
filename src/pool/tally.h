/* SPDX-License-Identifier: MIT */
#ifndef POOL_TALLY_H
#define POOL_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

/* How tasks ended. Only the polling thread counts, so neither lock nor locked instruction is needed. */
struct tally {
	_Atomic uint64_t completed;
	_Atomic uint64_t failed;
	_Atomic uint64_t timeouts;
	_Atomic uint64_t cancelled;
	_Atomic uint64_t retries;
	_Atomic uint64_t setup_failures;
};

static inline void tally_count(_Atomic uint64_t *count)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
