/* SPDX-License-Identifier: MIT */
/* Running git. */
#ifndef CLI_GIT_H
#define CLI_GIT_H

#include "base/text.h"
#include "gpu_dispatch.h"

/*
 * Runs `git -C dir WORDS…` (ended by NULL) and appends its output. index: the index file to use, or NULL for the
 * default. -ENOENT if git is not installed; -EINVAL if git fails, with the first line of its error output as err's
 * message. Neither hooks nor a file system monitor run. -ETIME, -EFBIG: git waited or worked for too long
 * (git_child.h).
 */
int git_run(const char *dir, const char *index, const char *const *words, struct text *out, struct gd_error *err);

/* The same with environment variables, "NAME=VALUE", ended by NULL. They replace those of the same names. */
int git_run_with(const char *dir, const char *const *variables, const char *const *words, struct text *out,
	struct gd_error *err);

#endif
