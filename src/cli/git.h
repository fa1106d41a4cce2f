/* SPDX-License-Identifier: MIT */
/* Running git. */
#ifndef CLI_GIT_H
#define CLI_GIT_H

#include "base/text.h"
#include "gpu_dispatch.h"

/*
 * Runs `git -C dir WORDS…` (ended by NULL) and appends its output. index: the index file to use, or NULL for the
 * default. -ENOENT if git is not installed; -EINVAL if git fails: err's message is then the first line of git's
 * error output and, if that line announces a list, also the list. Git runs neither hooks nor a file system monitor.
 * -ETIME, -EFBIG: git waited or took too long (git_child.h).
 */
int git_run(const char *dir, const char *index, const char *const *words, struct text *out, struct gd_error *err);

/* Removes the newline at the end of git's output. */
void git_cut_newline(struct text *t);

/*
 * Appends those paths that are ignored, in the same order. Each path is relative to the top of the working
 * tree, begins with "./" (git gives a leading ":" a meaning), and ends with NUL. Git reads rules in the directories
 * above each path, and nothing in the path itself. Whether the path is tracked makes no difference.
 */
int git_list_ignored(const char *top, const struct text *paths, struct text *ret, struct gd_error *err);

#endif
