/* SPDX-License-Identifier: MIT */
/*
 * The line `hook` is appended before the hook is handed out. So a hook runs at most once for each
 * end, and not at all where runner and keeper are killed at that moment. Hooks that are
 * due when a runner leaves are left to the next one.
 */
#include "queue/runner/runner_hooks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/runner/order_payload.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"

#define MOST_AT_ONCE 4

struct hook_wait {
	struct hook_wait *next;
	uint64_t id;
	uint32_t attempt;
	bool cwd_own;
	struct text strings; /* the payload of the order */
};

static void hook_wait_destroy(struct hook_wait *h)
{
	if (h)
		text_finish(&h->strings);
	free(h);
}

static const char *hook_of(const struct runner *r, const struct job *job)
{
	return job->wish->on_finish ? job->wish->on_finish : r->options.on_finish;
}

bool runner_hook_is_planned(const struct runner *r, uint64_t id)
{
	for (const struct hook_wait *h = r->hooks; h; h = h->next)
		if (h->id == id)
			return true;
	return false;
}

void runner_hook_plan(struct runner *r, struct job *job)
{
	if (!hook_of(r, job))
		return;
	struct hook_wait *h = calloc(1, sizeof(*h));
	/* The hook gets the job as it is now: a retry may change it. */
	if (!h || order_payload_write_hook(r, job, hook_of(r, job), &h->strings) < 0) {
		runner_say(r, "gpuq: the hook of job %llu could not be run\n", (unsigned long long)job->id);
		hook_wait_destroy(h);
		return;
	}
	h->id = job->id;
	h->attempt = job->num_attempts;
	h->cwd_own = job->wish->cwd_own;
	if (r->hooks)
		r->last_hook->next = h;
	else
		r->hooks = h;
	r->last_hook = h;
}

static size_t hooks_that_run(const struct runner *r)
{
	size_t n = 0;
	for (const struct runner_keeper *k = r->keepers; k; k = k->next)
		n += k->busy && k->hook;
	return n;
}

static int write_line(struct runner *r, uint64_t id)
{
	cleanup_(text_finish) struct text line = {0};
	record_write_control(&line, EVENT_HOOK, id, NULL);
	int e = text_error(&line);
	return e < 0 ? e : journal_append_line(r->journal, line.data, line.length, NULL);
}

void runner_hook_taken(struct runner_keeper *k)
{
	hook_wait_destroy(take_ptr(k->due));
}

void runner_hook_again(struct runner_keeper *k)
{
	struct runner *r = k->runner;
	struct hook_wait *h = take_ptr(k->due);
	if (!h)
		return;
	h->next = r->hooks;
	if (!r->hooks)
		r->last_hook = h;
	r->hooks = h;
}

void runner_hooks_run(struct runner *r)
{
	while (r->hooks && !r->pause_until_ns && !r->blocked && hooks_that_run(r) < MOST_AT_ONCE) {
		struct runner_keeper *k = runner_keeper_get(r);
		if (!k)
			return;
		struct hook_wait *h = r->hooks;
		int e = write_line(r, h->id);
		if (e < 0) {
			runner_pause(r, RUNNER_TROUBLE_WRITE, e);
			return;
		}
		r->hooks = h->next;
		struct keeper_order o = {.kind = KEEPER_ORDER_HOOK,
			.id = h->id,
			.attempt = h->attempt,
			.cwd_own = h->cwd_own,
			.size = h->strings.length};
		k->hook = true;
		k->due = h;
		(void)runner_keeper_send(k, &o, h->strings.data);
		if (k->pid)
			runner_hook_taken(k);
	}
}

void runner_hooks_close(struct runner *r)
{
	while (r->hooks) {
		struct hook_wait *h = r->hooks;
		r->hooks = h->next;
		hook_wait_destroy(h);
	}
}
