/* SPDX-License-Identifier: MIT */
#include "support/wait.h"

#include <poll.h>

#include "base/clock.h"
#include "support/check.h"

uint64_t wait_deadline_ns(void)
{
	return clock_now_ns() + WAIT_MS * NS_PER_MS;
}

void wait_check(uint64_t deadline_ns, const char *what)
{
	if (clock_now_ns() >= deadline_ns)
		check_failed(__FILE__, __LINE__, what);
}

void wait_moment(uint64_t deadline_ns, const char *what)
{
	wait_check(deadline_ns, what);
	poll(NULL, 0, 1);
}
