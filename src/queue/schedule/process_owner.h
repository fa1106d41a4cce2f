/* SPDX-License-Identifier: MIT */
/* The user and the name of a process, for messages; from /proc. */
#ifndef QUEUE_SCHEDULE_PROCESS_OWNER_H
#define QUEUE_SCHEDULE_PROCESS_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* "alice, python"; a user without a name by number. False if there is no such process. A placement_describe. */
bool process_owner_describe(void *context, int64_t pid, char *buf, size_t size);

/* "alice", or "user 1000" if the user has no name. Returns buf. */
const char *process_owner_user(uid_t user, char *buf, size_t size);

#endif
