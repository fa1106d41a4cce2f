/* SPDX-License-Identifier: MIT */
/*
 * Recognizes a queue that was copied, by cp, git, tar or a backup. Its unfinished jobs would run a second time, and its
 * running jobs belong to the original. The file `home` in the folder of a journal holds the folder's inode number,
 * which a copy does not have; renaming the folder keeps it.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_HOME_H
#define QUEUE_JOURNAL_JOURNAL_HOME_H

#include <stdbool.h>

#include "queue/journal/journal.h"

/* Also false if the folder has no such file yet, or if the file system may change inode numbers. */
bool journal_home_is_elsewhere(const struct journal *j);

/* The queue is used here from now on. Best effort: without the file, a copy is not recognized. */
void journal_home_set(const struct journal *j);

#endif
