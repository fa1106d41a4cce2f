/* SPDX-License-Identifier: MIT */
/*
 * Waits for git with limits: in a directory that others can write, a pipe that replaces .gitignore makes git wait
 * forever, and a huge file makes it work for hours.
 */
#ifndef CLI_GIT_CHILD_H
#define CLI_GIT_CHILD_H

#include <sys/types.h>

#include "base/text.h"

struct git_patience {
	unsigned idle_ms; /* limit: git and its children use no CPU time and write nothing for this long */
	unsigned cpu_ms;  /* limit of their CPU time */
};

#define GIT_PATIENCE                                                                                                   \
	{                                                                                                              \
		.idle_ms = 30000, .cpu_ms = 600000                                                                     \
	}

/*
 * Reads fd until its end and appends to `out`. Kills the child and its children if a limit is exceeded: -ETIME if it
 * was idle, -EFBIG if it worked for too long. The caller waits for the child.
 */
int git_child_read(pid_t pid, int fd, const struct git_patience *patience, struct text *out);

#endif
