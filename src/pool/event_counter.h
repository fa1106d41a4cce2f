/* SPDX-License-Identifier: MIT */
/* Eventfds used as flags: readable or not. They do not block. */
#ifndef POOL_EVENT_COUNTER_H
#define POOL_EVENT_COUNTER_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* Makes the descriptor readable. Safe in any thread and in signal handlers. */
static inline void event_counter_raise(int fd)
{
	int saved = errno;
	uint64_t one = 1;
	if (write(fd, &one, sizeof(one)) < 0)
		errno = 0; /* the counter is full: it is readable */
	errno = saved;
}

/* Makes the descriptor unreadable; works for timers, too. */
static inline void event_counter_lower(int fd)
{
	uint64_t count;
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

#endif
