/* SPDX-License-Identifier: MIT */
/*
 * Recognizes a queue that was copied, by cp, git, tar or a backup. Its unfinished jobs and due hooks would run a second
 * time, and its running jobs belong to the original. The file `home` in the folder of a journal holds the folder's
 * inode number, which a copy does not have; renaming the folder keeps it.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_HOME_H
#define QUEUE_JOURNAL_JOURNAL_HOME_H

#include <stdbool.h>

#include "queue/journal/journal.h"

/* dir_fd: the journal's folder. Also false if the folder has no such file. True if the file system may change inode
 * numbers: a copy is not recognized. */
bool journal_home_is_here(int dir_fd);

/* If journal_home_is_here() is false: whether the folder was removed or not copied. Then dir_fd is negative, or a new
 * folder without the file `home`. */
bool journal_home_is_lost(int dir_fd);

/*
 * Call it before a copy is used. An archive of another user can contain symbolic and hard links to files of this user,
 * which would be overwritten, and files that others can read. Removes links and files with several names, and takes the
 * permissions of others away. Unless trusted, renames the folder of frozen trees; ret_trees gets its new name, or "".
 * Refuses a journal with several names, which may be that of another queue, whose runner does not know this folder.
 */
#define JOURNAL_TREES_ROOM 32
int journal_home_clean(struct journal *j, bool trusted, char ret_trees[JOURNAL_TREES_ROOM], struct gd_error *err);

/* The queue is used here from now on. Synced, because a queue without the file looks like a copy. */
int journal_home_set(const struct journal *j);

#endif
