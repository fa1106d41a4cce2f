/* SPDX-License-Identifier: MIT */
/*
 * System calls that not every kernel has: makes them fail with ENOSYS in this process and in all its children, as on an
 * old kernel, under valgrind or in a sandbox.
 */
#ifndef TESTS_SUPPORT_MISSING_CALLS_H
#define TESTS_SUPPORT_MISSING_CALLS_H

#include <stddef.h>

struct missing_call {
	const char *name;
	long number;
};

/* All calls that could be used here and are newer than Linux 5.4 or unknown to valgrind. */
extern const struct missing_call missing_calls[];
extern const size_t num_missing_calls;

/* Forbids one of them, or all for NULL. 0 or a negative errno value; -ENOENT for an unknown name. */
int missing_calls_forbid(const char *name);

#endif
