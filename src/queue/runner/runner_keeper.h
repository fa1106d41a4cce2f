/* SPDX-License-Identifier: MIT */
/*
 * A keeper that this runner started or adopted, and the socket to it.
 *
 * It is busy from an order to run a job or a hook until it says that it is ready, and
 * is then reused. When the socket closes the keeper is gone:
 * running_keeper_died() decides what becomes of its job, runner_hooks_run() of a hook.
 */
#ifndef QUEUE_RUNNER_RUNNER_KEEPER_H
#define QUEUE_RUNNER_RUNNER_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/keeper/keeper_messages.h"

struct keeper_info;
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
	uint64_t hook_id; /* busy with the hook of this job alone; 0: with a job */
	uint32_t hook_attempt;
	bool hook_idle;              /* it is not for an end, see struct due_hook */
	struct running *running;     /* its job, until that has ended */
	bool blocked;                /* it cannot write the end of its job */
	pid_t pid;                   /* 0: it has not sent its first message */
	bool adopted;                /* started by an earlier runner: it leaves when its job is over */
	bool other;                  /* it speaks another protocol: it is sent no orders */
	struct text later;           /* orders for an adopted keeper, until its protocol is known */
	char in[KEEPER_MESSAGE_MAX]; /* the beginning of an incomplete note, at most */
	size_t in_bytes;
};

/* An idle one, or a new one; NULL: none can be started now, and the runner pauses. */
struct runner_keeper *runner_keeper_get(struct runner *r);
/* Whether a keeper cannot write the end of its job: then nothing new starts. */
bool runner_is_blocked(const struct runner *r);
/*
 * payload: order->size bytes. What the socket does not take is sent later. -ENOMEM: nothing is sent, and the keeper is
 * as it was.
 */
int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload);
/*
 * Connects to the keeper of a job that an earlier runner has started. False: it cannot be reached, and is known by its
 * lock alone.
 */
bool runner_keeper_adopt(struct runner *r, struct running *run, const struct keeper_info *info);
/* Closes the socket; the keeper has no job of ours. */
void runner_keeper_forget(struct runner_keeper *k);
/* The runner leaves: its keepers go on with their jobs. */
void runner_keepers_destroy(struct runner *r);

#endif
