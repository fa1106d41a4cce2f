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

/* The time of day, which can jump: only for times that must be valid after a reboot. */
static inline uint64_t clock_wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/*
 * clock_now_ns() for frequent callers: at most about a microsecond old. The processor's counter only decides whether
 * the last reading is still recent, so neither its unit nor differences between processors matter.
 */
struct clock_cache {
	uint64_t ticks;
	uint64_t ns;
};

static inline uint64_t clock_recent_ns(struct clock_cache *c)
{
#if defined(__x86_64__)
	uint64_t ticks = __builtin_ia32_rdtsc();
	if (ticks - c->ticks < 2000)
		return c->ns;
	c->ticks = ticks;
#endif
	return c->ns = clock_now_ns();
}

/* Milliseconds until a deadline, rounded up for poll(); 0 if it has passed. */
static inline int clock_ms_until(uint64_t deadline_ns, uint64_t now_ns)
{
	if (deadline_ns <= now_ns)
		return 0;
	uint64_t ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
