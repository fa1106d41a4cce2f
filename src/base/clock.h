/* SPDX-License-Identifier: MIT */
/* Time for deadlines and durations: the monotonic clock, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline uint64_t clock_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Milliseconds until a deadline, rounded up for poll(); 0 when it is over. */
static inline int clock_ms_until(uint64_t deadline_ns, uint64_t now_ns)
{
	if (deadline_ns <= now_ns)
		return 0;
	uint64_t ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
