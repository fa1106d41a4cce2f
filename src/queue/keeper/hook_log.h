/* SPDX-License-Identifier: MIT */
/* What hooks print: hooks.log in the journal's folder, a line for each hook and then its output. */
#ifndef QUEUE_KEEPER_HOOK_LOG_H
#define QUEUE_KEEPER_HOOK_LOG_H

#include "queue/keeper/attempt.h"

#define HOOK_LOG "hooks.log"

/*
 * Opens it for a hook, writes its line and returns the descriptor; -1 where that cannot be done: the hook is run
 * without a log. A large file is renamed to hooks.log.1 first.
 */
int hook_log_open(int dir_fd, const struct attempt *a);

#endif
