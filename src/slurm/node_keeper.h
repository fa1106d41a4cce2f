/* SPDX-License-Identifier: MIT */
/* A keeper of a pilot or coordinator, and the socket to it. Like runner_keeper.h, for processes other than runners. */
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
	/* The keeper is gone; it is removed from the list after this call. */
	void (*gone)(void *context, struct node_keeper *k);
};

struct node_keeper {
	struct node_keeper *next;
	struct node_keeper **list; /* the list that contains it */
	int fd;
	struct loop_source *source;
	struct text out; /* orders; out_done bytes have been sent */
	size_t out_done;
	bool busy;
	struct node_job *job; /* NULL: none */
	uint64_t
		hook_id; /* in a coordinator, while the keeper is busy: the job whose hook it runs, and for which end */
	uint32_t hook_attempt;
	const struct node_keeper_ops *ops;
	void *context;
	char in[KEEPER_MESSAGE_MAX]; /* at most the start of an incomplete note */
	size_t in_bytes;
};

/* Requests a keeper from the nursery and adds it to the list. */
int node_keeper_create(struct loop *l, int nursery_fd, const struct node_keeper_ops *ops, void *context,
	struct node_keeper **list, struct node_keeper **ret);
void node_keeper_destroy(struct node_keeper *k);
/* Returns 0 or -ENOMEM. If the keeper has died, `gone` is called later. */
int node_keeper_send(struct node_keeper *k, const struct keeper_order *order, const void *payload);

#endif
