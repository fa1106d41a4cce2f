/* SPDX-License-Identifier: MIT */
/*
 * What the files of the journal share. Only journal.c and journal_*.c include this.
 *
 * After journal_open_file() and journal_open_folder(), also where they replace descriptors, `fd`, `dev` and `ino`
 * belong to one file, and `dir_fd` and `lock_fd` to one folder.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_PRIVATE_H
#define QUEUE_JOURNAL_JOURNAL_PRIVATE_H

#include "queue/journal/journal.h"

/* Whether the directory that the journal was in does not exist any more. */
bool journal_parent_is_removed(const struct journal *j);
/* Opens the file of the journal's name, in place of the one that is open; creates it if it is missing. Sets
 * `recognized`. */
int journal_open_file(struct journal *j, struct gd_error *err);
/* The same for the folder FILE.d and its append lock. */
int journal_open_folder(struct journal *j, struct gd_error *err);

/* The line in append.lock: for which file and size it was written (tail: a hash of the last bytes), and the counters.
 */
struct journal_counters {
	uint64_t dev, ino, size, tail, next_id, fence;
};

/*
 * Whether the file of this size begins as a journal does: it is empty, or its first line is the one that every journal
 * begins with, maybe torn, or a job of the first gpu_dispatch. The archive of a journal is not a journal.
 */
bool journal_recognize(int fd, off_t size);
/* Returns -EINVAL and says that the file is not a journal. */
int journal_refuse_unrecognized(const struct journal *j, struct gd_error *err);

/* False if there is no such line. */
bool journal_counters_read(struct journal *j, struct journal_counters *ret);
/* Writes those of `j`, which are not dirty afterwards. */
int journal_counters_write(struct journal *j);
/*
 * Whether the journal, which has `size` bytes, is the file that the counters were written for, up to their size. An
 * inode number alone does not tell: a later file may have the same.
 */
bool journal_counters_match(const struct journal *j, const struct journal_counters *c, off_t size);

/*
 * Under the lock, if the counters (NULL: there are none) do not match a journal of this size: truncates a torn last
 * line, finds the next id from the journal's lines, raises the fence, and writes the header of an empty journal.
 */
int journal_recover(struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err);

#endif
