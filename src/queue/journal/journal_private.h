/* SPDX-License-Identifier: MIT */
/*
 * Shared by the source files of the journal. Only journal.c, journal_*.c, damage.c, draft.c, prune.c,
 * convert.h and a test include this.
 *
 * After journal_open_file() and journal_open_folder(), even if they replace descriptors, `fd`, `dev` and `ino`
 * belong to one file, and `dir_fd` and `lock_fd` to one folder.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_PRIVATE_H
#define QUEUE_JOURNAL_JOURNAL_PRIVATE_H

#include "queue/journal/journal.h"

/* Whether the directory of the journal no longer exists. */
bool journal_parent_is_removed(const struct journal *j);
/* Opens the file with the journal's name, replacing the open one; creates it if it is missing. Sets `recognized`. */
int journal_open_file(struct journal *j, struct gd_error *err);
/* The same for the folder FILE.d and its append lock. */
int journal_open_folder(struct journal *j, struct gd_error *err);

/* The line in append.lock: the file and size it was written for (tail: a hash of the last bytes), and the counters.
 */
struct journal_counters {
	char queue[JOURNAL_QUEUE_ROOM];
	char boot[37], host[65];
	uint64_t generation, dev, ino, size, tail, next_n, next_id, fence, synced_n;
	uint64_t birth; /* of the file; 0: unknown, or an older version wrote the line */
};

/*
 * Whether the file of this size begins like a journal: it is empty, or its first line is the header of a journal,
 * perhaps torn, or a job of the original gpu_dispatch (JOURNAL_ORIGINAL). The archive of a journal is not a journal. 0:
 * it does not; -EPROTONOSUPPORT: a journal of version 1.
 */
int journal_recognize(int fd, off_t size);
#define JOURNAL_ORIGINAL 2
/* Returns -EPROTONOSUPPORT with the message that version 1 is not supported. */
int journal_refuse_version(const struct journal *j, struct gd_error *err);
/* Whether a file next to a folder FILE.d is what a power cut left of a journal that was never synced: less than a page
 * of zeros. */
bool journal_recognize_zeros(int fd, off_t size);
/* Whether it begins with any record, perhaps torn, like an archive. */
bool journal_recognize_archive(int fd, off_t size);
/* Whether there is an intact line of ours near its beginning. */
bool journal_has_seal(int fd);
/* Returns -EINVAL with the message that the file is not a journal. */
int journal_refuse_unrecognized(const struct journal *j, struct gd_error *err);

/* Whether the sealed first line has this queue id: 1, 0, -ENODATA if there is no such line, or another error. */
int journal_compare_queue(int fd, const char *queue);
/* Returns -EPERM with the message that the folder belongs to another journal. */
int journal_refuse_folder(const struct journal *j, struct gd_error *err);

/* False if there is no such line, or its checksum is wrong. */
bool journal_counters_read(int lock_fd, struct journal_counters *ret);
int journal_counters_store(int lock_fd, const struct journal_counters *counters);
/* Writes the counters of `j` and clears `dirty`. */
int journal_counters_write(struct journal *j);
/*
 * Whether the journal, which has `size` bytes, is the file that the counters were written for, up to their size. The
 * inode number alone is not enough: a later file may have the same.
 */
bool journal_counters_match(const struct journal *j, const struct journal_counters *c, off_t size);
/* The hash of the last bytes before `end`. */
uint64_t journal_tail(const struct journal *j, off_t end);
/* The same for bytes that were just written; 0 if they are too short: use journal_tail(). */
uint64_t journal_tail_of(const char *bytes, size_t size);
/* This machine, with its host name as in the counters: one word. */
int journal_machine(struct machine *ret);
/* Whether `here`, from journal_machine(), was restarted since the counters were written. False on another host, where
 * this is unknown. */
bool journal_counters_rebooted(const struct journal_counters *c, const struct machine *here);

/*
 * Under the lock, if the counters (NULL: there are none) do not match a journal of this size, or the machine was
 * restarted since: truncates a torn last line that the counters do not cover, finds numbers and ids from the
 * journal's lines, raises the fence, and writes the header of an empty journal.
 */
int journal_recover(struct journal *j, off_t size, const struct journal_counters *c, struct gd_error *err);

/* Replaces the open file of the journal with *fd, a complete journal that was renamed to the path under the lock. */
int journal_take_file(struct journal *j, int *fd, struct gd_error *err);
int journal_sync_directory(const struct journal *j);
/* Under the lock: raises synced_n if the counters belong to this generation. */
int journal_counters_note(int lock_fd, const char *queue, uint64_t generation, uint64_t n);

#endif
