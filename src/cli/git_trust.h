/* SPDX-License-Identifier: MIT */
/* Checks whether another user could have written the configuration of a git repository: it names programs that git
 * runs. */
#ifndef CLI_GIT_TRUST_H
#define CLI_GIT_TRUST_H

#include "base/text.h"
#include "gpu_dispatch.h"

/* The top of the working tree that contains `dir`. -EINVAL: not in a working tree; err has git's message. */
int git_find_top(const char *dir, struct text *ret, struct gd_error *err);

/*
 * Checks the repository whose working tree has this top: the top, the git directories, all directories above them,
 * and the configuration. Git itself checks only who owns the directories, not who can write them.
 *
 * Run git only in the top that was checked, never below it: others may be able to write a directory below, and turn
 * it into another repository.
 *
 * 0; -EPERM: the message is "'/a/.git/config' can be written by group 'lab'"; -EINVAL: git finds no working tree,
 * with its message.
 */
int git_trust_check(const char *top, struct gd_error *err);

#endif
