/* SPDX-License-Identifier: MIT */
/*
 * A private folder for the objects that `git add` creates, until it is certain that they contain no file that another
 * user has chosen.
 *
 * Git looks at a file and then opens it by its path, and follows links. A user who can write the directory can replace
 * the file with a link to a private file of this user in between. Everybody who can read the repository could then
 * read that file.
 */
#ifndef CLI_GIT_QUARANTINE_H
#define CLI_GIT_QUARANTINE_H

#include "base/text.h"
#include "gpu_dispatch.h"

struct git_quarantine {
	struct text objects;      /* the folder of the repository */
	struct text path;         /* the private folder in it */
	struct text variables[2]; /* that make git use it */
};

/* Creates the folder. top: of the working tree. In any case, call git_quarantine_finish() at the end. */
int git_quarantine_open(struct git_quarantine *q, const char *top, struct gd_error *err);

/*
 * git_run() with new objects in the folder. Files that git and its filters create elsewhere are private, too.
 */
int git_quarantine_run(const struct git_quarantine *q, const char *top, const char *index, const char *const *words,
	struct text *out, struct gd_error *err);

/*
 * Compares the output of `git ls-files -s -z` before and after `git add`. -EPERM, with a message: an entry is new or
 * different, and other users can write a directory of its path below the top.
 */
int git_quarantine_check(const char *top, const struct text *before, const struct text *after, struct gd_error *err);

/* Moves the objects to the repository. */
int git_quarantine_accept(struct git_quarantine *q, struct gd_error *err);

/* Removes the folder with all that is still in it. */
void git_quarantine_finish(struct git_quarantine *q);

#endif
