/* SPDX-License-Identifier: MIT */
/*
 * A copy of the current git tree, including uncommitted and untracked files, as a worktree in the folder of a queue.
 *
 * Ignored files are not part of the tree; ignored entries at the top (data, virtual environments) are linked to the
 * originals. Caches, and the queue's own files and logs, are left out.
 */
#ifndef CLI_FROZEN_TREE_H
#define CLI_FROZEN_TREE_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct frozen_tree {
	char *path;   /* path of the worktree */
	char *cwd;    /* the current directory in it */
	int cwd_fd;   /* the same, O_PATH: what was checked */
	char *commit; /* 40 or 64 hexadecimal digits */
};

#define FROZEN_TREE_INIT ((struct frozen_tree){.cwd_fd = -1})

struct frozen_source {
	const char *journal_path;
	int queue_fd;        /* the journal's folder */
	const char *log_dir; /* where logs go */
	int cwd_fd;          /* the current directory, opened when the command began */
	bool trust;          /* accept a repository or files that other users can change */
};

/* More bytes in untracked files are most likely data that git should ignore. */
#define FROZEN_TREE_MAX_BYTES ((unsigned long long)100 << 20)

/*
 * Freezes the tree of the current directory. -EPERM, without `trust`: other users can change the repository or its
 * files, or have replaced the current directory. -EINVAL, with a message: not in a git tree, submodules or other
 * repositories in it, too many bytes in untracked files, or a current directory that is not in the frozen tree.
 */
int frozen_tree_make(const struct frozen_source *source, struct frozen_tree *ret, struct gd_error *err);
void frozen_tree_finish(struct frozen_tree *t);

/*
 * Removes the worktree if nothing in it was added, changed, removed or committed since: 0. 1: it has changes and is
 * kept. Otherwise a negative errno value, with a message; -EPERM as above. Python caches do not count as changes.
 */
int frozen_tree_remove(const char *path, const char *commit, bool trust, struct gd_error *err);

/*
 * Whether the path leads to a directory in the folder of worktrees of a queue, and neither this directory nor the
 * folder is a link. The journal of a copied queue names the trees of the original. queue_fd: the journal's folder.
 */
bool frozen_tree_is_of_queue(const char *path, int queue_fd);

#endif
