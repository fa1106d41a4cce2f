/* SPDX-License-Identifier: MIT */
/* Whether a keeper of this machine is alive: it holds a lock on its file below the queue's folder. */
#ifndef QUEUE_KEEPER_KEEPER_LOCK_H
#define QUEUE_KEEPER_KEEPER_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

struct keeper_info;

/* The keeper's file below the queue's folder; false: the name in the journal is not a valid keeper name. */
#define KEEPER_FILE_ROOM 80
bool keeper_lock_file(const struct keeper_info *k, char ret[KEEPER_FILE_ROOM]);

/* The PID of the process that holds the lock. 0: the keeper is gone, or `k` is NULL; -1: unknown, it may be alive. */
pid_t keeper_lock_holder(int dir_fd, const struct keeper_info *k);

#endif
