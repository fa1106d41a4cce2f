/* SPDX-License-Identifier: MIT */
/*
 * Which files of other users a queue uses: none whose content is executed, unless the user says so.
 *
 * A file that the user named on the command line is the user's own choice. A file that is used because it lies there
 * (./commands.txt, ./gpuq.yaml), and every journal, must be a regular file that no other user can have written. No
 * other user can have given it its name either: nobody else can rename files in its directory, or a directory above it.
 */
#ifndef QUEUE_JOURNAL_TRUST_H
#define QUEUE_JOURNAL_TRUST_H

#include "gpu_dispatch.h"

/* How an input file was chosen. */
enum trust_choice {
	TRUST_NAMED,    /* on the command line: any file, also a pipe, which is waited for */
	TRUST_FOUND,    /* not named: a regular file that only the user and root can have written and put there */
	TRUST_ACCEPTED, /* not named, but with --trust: a regular file of anybody */
};

/*
 * Opens an input file for reading: 0, or
 * -EPERM: refused, err says why and how to accept the file; -EINVAL: it was found and is not a regular file.
 * Other codes are those of open(). err is set for -EPERM alone.
 */
int trust_open(const char *path, enum trust_choice choice, int *ret_fd, struct gd_error *err);

/* 0 if base/trust.h has no objection to the open file; otherwise -EPERM, as trust_refuse(). */
int trust_check(int fd, const char *path, struct gd_error *err);

/* Returns -EPERM and says: refusing to use 'path': it belongs to another user; what to do. */
int trust_refuse(const char *path, const char *objection, struct gd_error *err);

/*
 * 0 if no other user can put another file in the place of one in the directory dir_fd, which is that of the journal
 * `path`. Otherwise -EPERM: err says which directory other users can change, who they are, and what to do.
 */
int trust_check_journal_directory(int dir_fd, const char *path, struct gd_error *err);

/* Objections to a path whose last part, or a directory before it, is a link of another user, for trust_refuse(). */
#define TRUST_FOREIGN_LINK "is a symbolic link of another user"
#define TRUST_FOREIGN_WAY  "leads through a symbolic link of another user"

#endif
