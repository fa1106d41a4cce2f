/* SPDX-License-Identifier: MIT */
/* The output of hooks: hooks.log in the journal's folder, with a header line for each hook. */
#ifndef QUEUE_KEEPER_HOOK_LOG_H
#define QUEUE_KEEPER_HOOK_LOG_H

#include "queue/keeper/attempt.h"

#define HOOK_LOG "hooks.log"

/*
 * Opens the log for a hook, writes the header line and returns the descriptor; -1 on failure, then the
 * hook runs without a log. A large file is renamed to hooks.log.1 first.
 */
int hook_log_open(int dir_fd, const struct attempt *a);

#endif
