/* SPDX-License-Identifier: MIT */
/*
 * Hooks of ends that no keeper has written: a job that failed because of another one, that was cancelled while it
 * waited, or whose keeper was lost. A keeper runs them, a few at a time: the runner waits for nobody.
 *
 * The line `hook` is written first. So a hook runs once for each end, or not at all where everybody is
 * killed at that moment; and what is due when a runner goes is left to the next one.
 */
#include "queue/runner/runner_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"

#define MOST_AT_ONCE 4

struct hook_wait {
	struct hook_wait *next;
	uint64_t id;
	uint32_t attempt;
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

static void append_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* In the order of keeper.h. */
static int write_strings(struct runner *r, struct job *job, struct text *t)
{
	cleanup_(text_finish) struct text input = {0};
	int e = hook_describe_job(job, &input);
	if (e == 0 && !job->wish->env)
		e = runner_surroundings(r, NULL);
	if (e < 0)
		return e;
	append_string(t, "");
	append_string(t, job->wish->cwd ? job->wish->cwd : r->own_cwd);
	append_string(t, job->wish->env ? job->wish->env : r->own_env);
	append_string(t, "");
	append_string(t, hook_of(r, job));
	append_string(t, job->name);
	append_string(t, "");
	append_string(t, text_string(&input));
	return text_error(t);
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
	/* The job is told as it is now: a retry may change it. */
	if (!h || write_strings(r, job, &h->strings) < 0) {
		runner_say(r, "gpuq: the hook of job %llu could not be run\n", (unsigned long long)job->id);
		hook_wait_destroy(h);
		return;
	}
	h->id = job->id;
	h->attempt = job->num_attempts;
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

void runner_hook_again(struct runner *r, struct runner_keeper *k)
{
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
			runner_pause(r, TROUBLE_WRITE, e);
			return;
		}
		r->hooks = h->next;
		struct keeper_order o = {
			.kind = KEEPER_ORDER_HOOK, .id = h->id, .attempt = h->attempt, .size = h->strings.length};
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
