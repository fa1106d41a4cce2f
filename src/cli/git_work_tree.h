/* SPDX-License-Identifier: MIT */
/*
 * Checks whether other users could have written files of a git working tree.
 *
 * Git opens files by their paths. A user who can write a directory of the tree can replace a file with a link to a
 * private file, a pipe or a huge file at any moment, and choose with .gitignore and .gitattributes what git stores. So
 * git may only read directories that no other user can write.
 */
#ifndef CLI_GIT_WORK_TREE_H
#define CLI_GIT_WORK_TREE_H

#include "base/text.h"
#include "gpu_dispatch.h"

/*
 * Checks each directory that git reads, and each file, link and directory in it. What the user's own rules ignore is
 * not checked, because git does not read it, unless it contains tracked files. Links of this user and root are
 * accepted. They are not followed, because git does not follow them either.
 *
 * top: the top of the tree; git_trust_check() has accepted the repository. index: the output of `git ls-files -s -z`.
 * skip: NULL, or a path relative to the top; if it is a directory that others cannot write, its contents are not
 * checked.
 *
 * 0; -EPERM, also if something cannot be examined: the message is "'/a/data' can be written by its group, so other
 * users…; run chmod…", to which the caller can append ", or…"; other codes, with a message, if git fails. The command
 * `git check-ignore` is called once per level of directories. 200,000 files take about half a second.
 */
int git_work_tree_check(const char *top, const struct text *index, const char *skip, struct gd_error *err);

#endif
