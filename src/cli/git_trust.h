/* SPDX-License-Identifier: MIT */
/* Checks whether another user could have written a git repository: its configuration names programs that git runs, and
 * its objects become code that jobs run. */
#ifndef CLI_GIT_TRUST_H
#define CLI_GIT_TRUST_H

#include "base/text.h"
#include "gpu_dispatch.h"

/* The top of the working tree that contains `dir`. -EINVAL: not in a working tree; err has git's message. */
int git_find_top(const char *dir, struct text *ret, struct gd_error *err);
/* The same for the current directory, which is cwd_fd. Ignores repositories that other users could have put there:
 * -EPERM if there is no other one; -ENOENT if there is none at all. */
int git_find_trusted_top(int cwd_fd, struct text *ret, struct gd_error *err);

/*
 * Checks the repository whose working tree has this top: the top, the git directories, all directories above them, and
 * everything in the git directories (trust_check_tree()): the configuration names programs, and git does not compare
 * objects with their names when it checks out files. The same for each folder of objects that the repository borrows
 * from (alternates), and for those that variables name. Hooks are not checked, because git_run() never runs them. Git
 * itself checks only who owns the directories, not who can write them.
 *
 * Run git only in the top that was checked, never below it: others may be able to write a directory below, and turn
 * it into another repository.
 *
 * 0; -EPERM, also if something cannot be examined: the message is "'/a/.git/config' can be written by its group, so
 * other users could run commands as you; run chmod…", to which the caller can append ", or…"; -EINVAL: git finds no
 * working tree, with its message.
 */
int git_trust_check(const char *top, struct gd_error *err);

#endif
