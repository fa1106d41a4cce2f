/* SPDX-License-Identifier: MIT */
/* Whether another user could have written the configuration of a git repository: it names programs, which git runs. */
#ifndef CLI_GIT_TRUST_H
#define CLI_GIT_TRUST_H

#include "base/text.h"
#include "gpu_dispatch.h"

/* The top of the tree that git finds around `dir`. -EINVAL: there is none; err has the words of git. */
int git_find_top(const char *dir, struct text *ret, struct gd_error *err);

/*
 * Looks at the repository whose tree has this top: the top, the folders of git, with all directories above them, and
 * the configuration. Git itself asks only who owns the directories, and not who can write them.
 *
 * Run git only in the top that was checked, never below it: others may be able to write a directory below, and to
 * make it a repository of its own.
 *
 * 0; -EPERM: err says "'/a/.git/config' can be written by group 'lab'"; -EINVAL: git finds no tree, with its words.
 */
int git_trust_check(const char *top, struct gd_error *err);

#endif
