/* SPDX-License-Identifier: MIT */
/*
 * The directory of a frozen job: the current directory, in the worktree.
 *
 * Git runs for seconds, and meanwhile other users can rename directories in folders that git ignores. So the path of
 * the current directory may lead elsewhere afterwards; only its descriptor identifies it.
 */
#ifndef CLI_FROZEN_DIRECTORY_H
#define CLI_FROZEN_DIRECTORY_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct frozen_directory {
	const char *top;    /* of the original tree */
	const char *prefix; /* path of the current directory relative to the top, without links */
	const char *tree;   /* the worktree */
	int cwd_fd;         /* the current directory */
	bool trust;         /* accept directories of the worktree that other users can write */
};

/*
 * Opens tree/prefix with O_PATH. -EPERM, with a message, if other users can write or replace it, or a directory above
 * it. -EINVAL: it is not in the commit.
 */
int frozen_directory_open(const struct frozen_directory *d, int *ret_fd, struct gd_error *err);

/* Whether both descriptors refer to the same directory. */
bool frozen_directory_is_same(int a, int b);

#endif
