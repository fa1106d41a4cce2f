/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an event, with a deadline. On timeout the test fails and prints what it waited for. Works in hosts, too.
 */
#ifndef TESTS_SUPPORT_WAIT_H
#define TESTS_SUPPORT_WAIT_H

#include <stdint.h>

#define WAIT_MS 60000 /* a limit for expected events: reached by a hang, not by a slow machine */

/* WAIT_MS from now, on the monotonic clock. */
uint64_t wait_deadline_ns(void);

/* Fails if the deadline has passed. */
void wait_check(uint64_t deadline_ns, const char *what);

/* The same, and sleeps for a millisecond. */
void wait_moment(uint64_t deadline_ns, const char *what);

/* Polls, for conditions that other processes cause and that have no descriptor. */
#define wait_until(condition)                                                                                          \
	for (uint64_t wait_deadline_ = wait_deadline_ns(); !(condition);)                                              \
	wait_moment(wait_deadline_, #condition)

#endif
