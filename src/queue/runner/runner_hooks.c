/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_hooks.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/hook_log.h"
#include "queue/keeper/hook_order.h"
#include "queue/runner/runner_follow.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_recover.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"

#define MOST_AT_ONCE 4

const char *runner_hook_of(const struct runner *r, const struct job *job)
{
	return job->wish->has_on_finish ? job->wish->on_finish : r->options.on_finish;
}

const char *runner_hook_to_record(const struct runner *r, const struct job *job)
{
	return job->wish->on_finish ? NULL : r->options.on_finish;
}

void runner_hook_add(struct runner *r, const struct job *job)
{
	const char *command = runner_hook_to_record(r, job);
	if (command)
		record_write_hook(&r->following.to_append, &(struct hook_record){.id = job->id, .on_finish = command});
}

static bool is_foreign(const struct runner *r, const struct due_hook *h)
{
	return h->keeper && !runner_same_host(r, h->keeper);
}

bool runner_hooks_are_due(const struct runner *r)
{
	for (const struct due_hook *h = r->following.jobs.hooks; h; h = h->next)
		if (!is_foreign(r, h))
			return true;
	return false;
}

static size_t hooks_that_run(const struct runner *r)
{
	size_t n = 0;
	for (const struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		n += k->busy && k->hook_id;
	return n;
}

/* Whether a living keeper has the hook, as far as the journal has been read. */
static bool is_in_hand(const struct runner *r, const struct due_hook *h)
{
	for (const struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		if (k->busy && k->hook_id == h->id && k->hook_attempt == h->attempt && k->hook_idle == h->idle)
			return true;
	if (!h->keeper)
		return false;
	/* Most are our own keepers, whose sockets close when they die. */
	for (const struct runner_keeper *k = r->executing.keepers; k; k = k->next)
		if (k->pid && k->pid == h->keeper->pid && strcmp(h->keeper->machine.pidns, r->machine.pidns) == 0)
			return k->busy;
	return runner_keeper_holder(r, h->keeper) != 0;
}

/* Marks no more than can be handed out: thousands may be due. Returns how many. */
static size_t find_lost(struct runner *r)
{
	size_t n = 0;
	for (struct due_hook *h = r->following.jobs.hooks; h && n < MOST_AT_ONCE; h = h->next) {
		h->found = !is_foreign(r, h) && !is_in_hand(r, h);
		n += h->found;
	}
	return n;
}

static void unmark(struct runner *r, size_t n)
{
	for (struct due_hook *h = r->following.jobs.hooks; h && n > 0; h = h->next) {
		n -= h->found;
		h->found = false;
	}
}

void runner_on_hook_failed(void *context, const struct job *job, const struct record *outcome)
{
	struct runner *r = context;
	cleanup_(text_finish) struct text words = {0};
	if (r->following.loading)
		return;
	hook_failure_words(&words, job, outcome);
	runner_say(r, "gpuq: %s; its output is in '%s/" HOOK_LOG "'\n", text_string(&words),
		r->following.journal->dir_path);
}

static void give_up(struct runner *r, const struct due_hook *h)
{
	cleanup_(text_finish) struct text words = {0};
	hook_given_up_words(&words, h);
	runner_say(r, "gpuq: %s\n", text_string(&words));
	hook_order_give_up(&r->following.to_append, h);
	r->following.must_read = true; /* the line is appended before the next pass */
}

/* False: no hook can be handed out now. */
static bool hand_out(struct runner *r, const struct due_hook *h)
{
	cleanup_(text_finish) struct text payload = {0};
	const struct job *job = jobs_find(&r->following.jobs, h->id);
	struct runner_keeper *k = runner_keeper_get(r);
	if (!k || !job)
		return false;
	struct keeper_order o;
	struct order_defaults *d = &r->options.order;
	int e = job->wish->env ? 0 : order_defaults_save(d, r->following.journal, NULL);
	if (e == 0)
		e = hook_order_write(job, h, d, r->following.fence, &o, &payload);
	if (e == 0)
		e = runner_keeper_send(k, &o, payload.data);
	/* If the keeper is gone, its socket closes: then the hook is lost and handed out again. */
	if (!k->busy) {
		runner_pause(r, RUNNER_TROUBLE_START, e);
		return false;
	}
	k->hook_id = h->id;
	k->hook_attempt = h->attempt;
	k->hook_idle = h->idle;
	return true;
}

/* Hands out hooks that were marked and are still due. */
static void hand_out_found(struct runner *r, size_t found)
{
	size_t done = 0, room = MOST_AT_ONCE - hooks_that_run(r);
	for (struct due_hook *h = r->following.jobs.hooks; h && done < found && done < room; h = h->next) {
		if (!h->found)
			continue;
		h->found = false;
		done++;
		if (h->tries >= HOOK_TRIES)
			give_up(r, h);
		else if (!hand_out(r, h))
			return;
	}
	/* All marked hooks have been run: others may be due. */
	if (done == 0 && room > 0)
		r->following.must_read = true;
}

void runner_hooks_run(struct runner *r)
{
	if (!r->following.jobs.hooks || r->deciding.pause_until_ns || runner_is_blocked(r) ||
		hooks_that_run(r) >= MOST_AT_ONCE)
		return;
	size_t found = find_lost(r);
	if (found == 0)
		return;
	/* A keeper that died since the last read may have recorded that the hook ran. */
	if ((r->following.fence_stale ? runner_resync(r, false) : runner_read(r)) == 0)
		hand_out_found(r, found);
	unmark(r, found);
}
