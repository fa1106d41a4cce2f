/* SPDX-License-Identifier: MIT */
/* Links from a frozen tree to the data that is not part of it. */
#ifndef CLI_FROZEN_LINKS_H
#define CLI_FROZEN_LINKS_H

#include "gpu_dispatch.h"

/*
 * Creates links in the worktree to the entries of `top` that git ignores, and to directories in which everything is
 * ignored. Files of the queue and its logs are left out.
 *
 * `git ls-files --ignored` would list these entries, but it looks for repositories in them, and other users may be able
 * to write them.
 */
int frozen_links_create(
	const char *top, const char *worktree, const char *journal_path, const char *log_dir, struct gd_error *err);

#endif
