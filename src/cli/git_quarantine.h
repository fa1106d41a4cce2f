/* SPDX-License-Identifier: MIT */
/*
 * A private folder for the objects that `git add` creates, until it is certain that they contain no file that another
 * user has chosen.
 *
 * Git checks a file, then opens it by its path and follows links. In between, another user who can write the directory
 * can replace the file with a link to a private file of this user. Everybody who can read the repository could then
 * read that file.
 */
#ifndef CLI_GIT_QUARANTINE_H
#define CLI_GIT_QUARANTINE_H

#include "base/text.h"
#include "gpu_dispatch.h"

struct git_quarantine {
	int fd;                   /* the private folder, or -1; only git uses its path */
	int objects_fd;           /* the repository's folder for objects, which contains it, or -1 */
	struct text objects;      /* its path */
	struct text name;         /* of the private folder */
	struct text variables[2]; /* environment that makes git use the private folder */
};

#define GIT_QUARANTINE_NONE                                                                                            \
	{                                                                                                              \
		.fd = -1, .objects_fd = -1                                                                             \
	}

/* Creates the folder. Begin with GIT_QUARANTINE_NONE. top: the top of the working tree. Always call
 * git_quarantine_finish() at the end. */
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

/* Moves the objects to the repository. -EPERM, with a message: the folder is not at its path any more. */
int git_quarantine_accept(struct git_quarantine *q, struct gd_error *err);

/* Removes the folder and everything that is still in it. */
void git_quarantine_finish(struct git_quarantine *q);

#endif
