/* SPDX-License-Identifier: MIT */
/* Whether a keeper of this machine lives: it holds a lock on its file below the queue's folder. */
#ifndef QUEUE_KEEPER_KEEPER_LOCK_H
#define QUEUE_KEEPER_KEEPER_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

struct keeper_info;

/* Its file below the queue's folder; false: the journal names none that a keeper makes. */
#define KEEPER_FILE_ROOM 80
bool keeper_lock_file(const struct keeper_info *k, char ret[KEEPER_FILE_ROOM]);

/* The process that holds it. 0: the keeper is gone, or `k` is NULL; -1: it cannot be told, and may live. */
pid_t keeper_lock_holder(int dir_fd, const struct keeper_info *k);

#endif
