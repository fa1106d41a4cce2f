/* SPDX-License-Identifier: MIT */
/* Lets a runner or coordinator order a keeper to run a due hook, and report its outcome. */
#ifndef QUEUE_KEEPER_HOOK_ORDER_H
#define QUEUE_KEEPER_HOOK_ORDER_H

#include <stdint.h>

#include "base/text.h"

struct due_hook;
struct job;
struct keeper_order;
struct order_defaults;
struct record;

/* The order to run the hook, KEEPER_ORDER_HOOK, and its payload. 0 or -ENOMEM. */
int hook_order_write(const struct job *job, const struct due_hook *h, const struct order_defaults *d, uint64_t fence,
	struct keeper_order *ret, struct text *payload);
/* The line that gives up the hook: its keepers died HOOK_TRIES times. */
void hook_order_give_up(struct text *line, const struct due_hook *h);
/* "the --on-finish hook of job 12 failed with exit code 3" */
void hook_failure_words(struct text *t, const struct job *job, const struct record *outcome);
void hook_given_up_words(struct text *t, const struct due_hook *h);

#endif
