/* SPDX-License-Identifier: MIT */
/*
 * Holds off a second launcher in the same output folder: a locked file, launch.lock, as long as the launch lasts.
 *
 * It is a file of its own that only its owner can open. A lock on launch.jsonl itself could be taken by every user who
 * can read the results.
 */
#ifndef LAUNCH_HISTORY_LOCK_H
#define LAUNCH_HISTORY_LOCK_H

#include "gpu_dispatch.h"

struct history_lock {
	int fd; /* -1: not held */
	char *path;
};

/*
 * Takes the lock in the directory of `history_path`. -EBUSY while another launcher has it. Where the file system has no
 * locks, one does without. `l` is {.fd = -1} before.
 */
int history_lock_take(struct history_lock *l, const char *history_path, struct gd_error *err);
/* The same with any file; `busy` is the message of -EBUSY, to which the process that has it is added. */
int output_lock_take(struct history_lock *l, const char *lock_path, const char *busy, struct gd_error *err);
/* Removes the file, and releases the lock. Nothing if it is not held. */
void history_lock_release(struct history_lock *l);

#endif
