/* SPDX-License-Identifier: MIT */
/*
 * Prevents a second launcher in the same output folder: a locked file, launch.lock, for the duration of the launch.
 *
 * It is a separate file that only its owner can open. A lock on launch.jsonl itself could be taken by every user who
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
 * Takes the lock in the directory of `history_path`. -EBUSY while another launcher has it. If the file system has no
 * locks, continues without one. `l` is {.fd = -1} before.
 */
int history_lock_take(struct history_lock *l, const char *history_path, struct gd_error *err);
/* The same for any file. If another launcher has the lock, the message is `busy` and that process; if another lock
 * prevents it, the message contains `name`, the path for users. */
int output_lock_take(
	struct history_lock *l, const char *lock_path, const char *name, const char *busy, struct gd_error *err);
/* Removes the file and releases the lock. Does nothing if it is not held. */
void history_lock_release(struct history_lock *l);

#endif
