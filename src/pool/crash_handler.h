/* SPDX-License-Identifier: MIT */
/* Signal handlers with which a crashing worker leaves the signal and the address in its outbox. */
#ifndef POOL_CRASH_HANDLER_H
#define POOL_CRASH_HANDLER_H

#include "pool/channel.h"

/* Installs handlers in this process, a worker. They note the signal and the address, then let the signal kill it. */
int crash_handler_install(struct outbox *out);

#endif
