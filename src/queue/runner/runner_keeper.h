/* SPDX-License-Identifier: MIT */
/*
 * A keeper that this runner started or adopted, and the socket to it.
 *
 * It is busy from an order to run a job or a hook until it reports that it is ready, and is then
 * reused. When the socket closes, the keeper is gone: running_keeper_died() handles its job,
 * runner_hooks_run() its hook.
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
	uint64_t hook_id; /* busy with only the hook of this job; 0: with a job */
	uint32_t hook_attempt;
	bool hook_idle;              /* the hook is not for an end, see struct due_hook */
	struct running *running;     /* its job, until the job has ended */
	bool blocked;                /* it cannot write the end of its job */
	pid_t pid;                   /* 0: its first message has not arrived */
	bool adopted;                /* started by an earlier runner: it exits after its job */
	bool other;                  /* it uses another protocol: it is sent no orders */
	struct text later;           /* orders for an adopted keeper, until its protocol is known */
	char in[KEEPER_MESSAGE_MAX]; /* at most the beginning of an incomplete note */
	size_t in_bytes;
};

/* An idle keeper, or a new one; NULL: none can be started now, and the runner pauses. */
struct runner_keeper *runner_keeper_get(struct runner *r);
/* Whether a keeper cannot write the end of its job: then no job is started. */
bool runner_is_blocked(const struct runner *r);
/*
 * payload: order->size bytes. Bytes that do not fit into the socket are sent later. -ENOMEM: nothing
 * is sent, and the keeper is unchanged.
 */
int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload);
/*
 * Connects to the keeper of a job that an earlier runner has started. False: it cannot be reached, and
 * only its lock can be checked.
 */
bool runner_keeper_adopt(struct runner *r, struct running *run, const struct keeper_info *info);
/* Closes the socket; the keeper has no job of ours. */
void runner_keeper_forget(struct runner_keeper *k);
/* The runner exits: its keepers continue with their jobs. */
void runner_keepers_destroy(struct runner *r);

#endif
