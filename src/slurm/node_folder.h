/* SPDX-License-Identifier: MIT */
/*
 * A pilot's private folder on its node, in $TMPDIR or /tmp. Other users may be able to write to both, so the folder is
 * created, used and removed through descriptors, never by its path.
 */
#ifndef SLURM_NODE_FOLDER_H
#define SLURM_NODE_FOLDER_H

#include <limits.h>

#include "gpu_dispatch.h"

struct node_folder {
	int parent_fd, fd;
	const char *name;    /* in `path` */
	char path[PATH_MAX]; /* without links */
};

#define NODE_FOLDER_NONE                                                                                               \
	{                                                                                                              \
		.parent_fd = -1, .fd = -1                                                                              \
	}

/*
 * Creates the folder in $TMPDIR, or in /tmp if other users could rename the folder there. -EPERM if they could in both;
 * GPUQ_TRUST turns this check off.
 */
int node_folder_make(struct node_folder *ret, struct gd_error *err);

/* Removes everything in an open directory. Best effort; does not follow links. */
void node_folder_clear(int dir_fd);
/* Removes the folder with its contents and closes it. Does not follow links. */
void node_folder_remove(struct node_folder *f);

#endif
