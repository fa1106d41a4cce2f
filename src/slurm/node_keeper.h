/* SPDX-License-Identifier: MIT */
/* A keeper of a pilot or coordinator, and the socket to it; as runner_keeper.h, for a process that is not a runner. */
#ifndef SLURM_NODE_KEEPER_H
#define SLURM_NODE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "queue/keeper/keeper_messages.h"

struct loop;
struct loop_source;
struct node_job;
struct node_keeper;

struct node_keeper_ops {
	void (*note)(void *context, struct node_keeper *k, const struct keeper_note *note);
	/* It is gone: removed from the list afterwards. */
	void (*gone)(void *context, struct node_keeper *k);
};

struct node_keeper {
	struct node_keeper *next;
	struct node_keeper **list; /* that it is in */
	int fd;
	struct loop_source *source;
	struct text out; /* orders, of which out_done bytes have been sent */
	size_t out_done;
	bool busy;
	struct node_job *job; /* NULL: none */
	uint64_t hook_id;     /* of a coordinator: the job whose hook it runs while it is busy, and for which end */
	uint32_t hook_attempt;
	const struct node_keeper_ops *ops;
	void *context;
	char in[KEEPER_MESSAGE_MAX]; /* the beginning of an incomplete note, at most */
	size_t in_bytes;
};

/* Asks the nursery for one, and puts it into the list. */
int node_keeper_create(struct loop *l, int nursery_fd, const struct node_keeper_ops *ops, void *context,
	struct node_keeper **list, struct node_keeper **ret);
void node_keeper_destroy(struct node_keeper *k);
/* -ENOMEM. If the keeper is gone, `gone` follows. */
int node_keeper_send(struct node_keeper *k, const struct keeper_order *order, const void *payload);

#endif
