/* SPDX-License-Identifier: MIT */
/* The payloads of the orders that the runner gives its keepers; see keeper_messages.h. */
#ifndef QUEUE_RUNNER_ORDER_PAYLOAD_H
#define QUEUE_RUNNER_ORDER_PAYLOAD_H

#include "gpu_dispatch.h"

struct due_hook;
struct job;
struct keeper_order;
struct runner;
struct running;
struct text;

/* The payload of KEEPER_ORDER_RUN. Also sets num_env, num_gpus and size of the order. */
int order_payload_write_job(struct runner *r, const struct job *job, const struct running *run, struct keeper_order *o,
	struct text *t, struct gd_error *err);

/* The order KEEPER_ORDER_HOOK and its payload. */
int order_payload_write_hook(
	struct runner *r, const struct job *job, const struct due_hook *h, struct keeper_order *o, struct text *t);

#endif
