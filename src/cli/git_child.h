/* SPDX-License-Identifier: MIT */
/* Waits for git with limits: a pipe, a filter or a file system can make it wait forever. */
#ifndef CLI_GIT_CHILD_H
#define CLI_GIT_CHILD_H

#include <sys/types.h>

#include "base/text.h"

struct git_patience {
	unsigned idle_ms; /* limit: git and its children use no CPU time and write nothing for this long */
	unsigned all_ms;  /* limit for the whole command */
};

#define GIT_PATIENCE                                                                                                   \
	{                                                                                                              \
		.idle_ms = 30000, .all_ms = 600000                                                                     \
	}

/*
 * Reads fd until its end and appends to `out`. Kills the child and its children if a limit is exceeded: -ETIME if it
 * was idle, -EFBIG if it took too long. The caller waits for the child.
 */
int git_child_read(pid_t pid, int fd, const struct git_patience *patience, struct text *out);

#endif
