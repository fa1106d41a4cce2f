/* SPDX-License-Identifier: MIT */
/* A crashing worker leaves the signal and the address in its outbox. */
#ifndef POOL_CRASH_H
#define POOL_CRASH_H

#include "pool/channel.h"

/* Handlers for this process, a worker: they note and let the signal do its work. */
int crash_install(struct outbox *out);

#endif
