/* SPDX-License-Identifier: MIT */
/* Whether another user could have written the configuration of a git repository: it names programs, which git runs. */
#ifndef CLI_GIT_TRUST_H
#define CLI_GIT_TRUST_H

#include "gpu_dispatch.h"

/*
 * Looks at the repository that git finds in `dir`: the top of the tree, the folders of git, with all directories above
 * them, and the configuration. Git itself asks only who owns the directories, and not who can write them.
 *
 * 0; -EPERM: err says "'/a/.git/config' can be written by group 'lab'"; -EINVAL: git finds no tree, with its words.
 */
int git_trust_check(const char *dir, struct gd_error *err);

#endif
