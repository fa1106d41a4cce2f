/* SPDX-License-Identifier: MIT */
/*
 * Trust in files of other users: unless the user allows it, a queue uses none of them if their content is executed.
 *
 * A file that the user named on the command line is the user's own choice. A file that is used by default because it
 * exists (./commands.txt, ./gpuq.yaml), and every journal, must be a regular file that no other user could have written
 * or put there: no other user can rename files in its directory, or a directory above it.
 */
#ifndef QUEUE_JOURNAL_TRUST_H
#define QUEUE_JOURNAL_TRUST_H

#include "gpu_dispatch.h"

/* How an input file was chosen: bits. */
enum trust_choice {
	TRUST_FOUND = 0,    /* not named: a regular file that only the user and root could have written and put there */
	TRUST_NAMED = 1,    /* on the command line: what named_file_find() finds; a pipe of this user is waited for */
	TRUST_ACCEPTED = 2, /* with --trust: a regular file of any user; if named, also behind links of any user */
};

/*
 * Opens an input file for reading. 0; -EPERM: refused, err explains why and how to accept the file; -EINVAL: not named
 * by the user and not a regular file. Other codes are those of open(). err is set only for -EPERM. otherwise: an
 * alternative to changing permissions and to --trust, for the message: "name it with --commands-file".
 */
int trust_open(const char *path, enum trust_choice choice, const char *otherwise, int *ret_fd, struct gd_error *err);

/*
 * 0 if base/trust.h has no objection to the open file; otherwise -EPERM with a message that contains the remedy, see
 * trust_remedy(), and the alternative.
 */
int trust_check(int fd, const char *path, const char *otherwise, struct gd_error *err);

/*
 * -EPERM if this process is root and the open journal belongs to another user, who could be harmed by what root creates
 * in the folder, or could make root run jobs or change files: not even --trust permits this. The message contains the
 * command that works.
 */
int trust_check_root(int fd, const char *path, struct gd_error *err);

/* The alternative for a journal. */
#define TRUST_OTHER_JOURNAL "use --jobs-file with a file in a directory of your own, such as ~/q.jsonl"

/* Returns -EPERM with the message "refusing to use 'path': it belongs to another user", and what to do. */
int trust_refuse(const char *path, const char *objection, struct gd_error *err);
/*
 * Refuses a path that other users control by links; objection: from journal_resolve(), or NULL. accepted: with --trust,
 * which allows it, except to root: the links could lead to a queue of root, whose jobs would then be chosen by others.
 */
int trust_check_links(const char *path, const char *objection, bool accepted, struct gd_error *err);

/*
 * 0 if no other user can add or replace files in the directory dir_fd, which is that of the journal `path`. A sticky
 * directory such as /tmp is refused, too: another user can rename a file of this user to the name of a journal, of its
 * archive or of its folder. Otherwise -EPERM: err names the directory that other users can change, who they are, and
 * what to do.
 */
int trust_check_journal_directory(int dir_fd, const char *path, struct gd_error *err);

/* Objections to a path whose last part, or a directory before it, is a link of another user, for trust_refuse(). */
#define TRUST_FOREIGN_LINK "is a symbolic link of another user"
#define TRUST_FOREIGN_WAY  "has a symbolic link of another user in its path"
/* The journal of a queue was replaced, and its folder was not. */
#define TRUST_REPLACED_BY_LINK "is a symbolic link, but the folder of a queue is next to it"
/* The path leads elsewhere than a moment ago. */
#define TRUST_JUST_REPLACED "has just been replaced"

#endif
