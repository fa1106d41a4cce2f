/* SPDX-License-Identifier: MIT */
/* Signal handlers of a worker that record the signal and the address of a crash in its outbox. */
#ifndef POOL_CRASH_HANDLER_H
#define POOL_CRASH_HANDLER_H

#include "pool/channel.h"

/* Installs handlers in this process, a worker. They note the signal and the address, then let the signal kill it. */
int crash_handler_install(struct outbox *out);

#endif
