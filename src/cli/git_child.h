/* SPDX-License-Identifier: MIT */
/*
 * Waiting for git, but not forever: in a directory that others can write, a pipe in the place of .gitignore makes git
 * wait, and a huge file makes it work for hours.
 */
#ifndef CLI_GIT_CHILD_H
#define CLI_GIT_CHILD_H

#include <sys/types.h>

#include "base/text.h"

struct git_patience {
	unsigned idle_ms; /* git and its children use no processor time and write nothing for so long */
	unsigned cpu_ms;  /* they have used so much */
};

#define GIT_PATIENCE                                                                                                   \
	{                                                                                                              \
		.idle_ms = 30000, .cpu_ms = 600000                                                                     \
	}

/*
 * Appends what comes from fd until its end. Kills the child and its children if it has used up our patience: -ETIME if
 * it was idle, -EFBIG if it worked for too long. The caller waits for the child.
 */
int git_child_read(pid_t pid, int fd, const struct git_patience *patience, struct text *out);

#endif
