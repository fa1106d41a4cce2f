/* SPDX-License-Identifier: MIT */
/*
 * A keeper that this runner started, and the socket to it.
 *
 * It is busy from an order to run a job or a hook until it says that it is ready, and
 * is then reused. When the socket closes the keeper is gone: its hook is due again,
 * and running_keeper_died() decides what becomes of its job.
 */
#ifndef QUEUE_RUNNER_RUNNER_KEEPER_H
#define QUEUE_RUNNER_RUNNER_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/keeper/keeper_messages.h"

struct hook_wait;
struct loop_source;
struct runner;
struct running;

struct runner_keeper {
	struct runner *runner;
	struct runner_keeper *next;
	int fd;
	struct loop_source *source;
	struct text out; /* orders, of which out_done bytes have been sent */
	size_t out_done;
	bool busy;
	bool hook;                                     /* busy with a hook alone */
	struct hook_wait *due;                         /* that hook, until the keeper is known to live */
	struct running *running;                       /* its job, until that has ended */
	pid_t pid;                                     /* 0: it has not sent its first message */
	char partial_note[sizeof(struct keeper_note)]; /* the beginning of an incomplete message */
	size_t partial_bytes;
};

/* An idle one, or a new one; NULL: none can be started now, and the runner pauses. */
struct runner_keeper *runner_keeper_get(struct runner *r);
/* payload: order->size bytes. What the socket does not take is sent later. */
int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload);
/* The runner leaves: its keepers go on with their jobs. */
void runner_keepers_destroy(struct runner *r);

#endif
