/* SPDX-License-Identifier: MIT */
/* Running git. */
#ifndef CLI_GIT_H
#define CLI_GIT_H

#include "base/text.h"
#include "gpu_dispatch.h"

/*
 * Runs `git -C dir WORDS…` (ended by NULL) and appends what it prints. index: the index file it works on, or NULL for
 * the usual one. -ENOENT if there is no git; -EINVAL if git fails, with the first line that it says as err's words.
 * Neither hooks nor a file system monitor run. -ETIME, -EFBIG: git waited or worked for too long (git_child.h).
 */
int git_run(const char *dir, const char *index, const char *const *words, struct text *out, struct gd_error *err);

#endif
