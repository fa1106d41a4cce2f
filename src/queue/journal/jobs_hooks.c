/* SPDX-License-Identifier: MIT */
/*
 * The list of due hooks. An attempt can have several hooks of the same kind; they run in order. A table finds the
 * oldest of each attempt and kind, the head, which leads to the others.
 */
#include <errno.h>

#include "queue/journal/jobs_private.h"

/* Whether the keeper recorded the end: that keeper runs the hook if it is alive. Pilots run no hooks. */
static bool is_by_keeper(const struct job *job, const struct record *r)
{
	return r->event != EVENT_IDLE && !(r->by.type && json_is(&r->by, "runner")) && job->keeper &&
	       !job->keeper->is_pilot;
}

static int append_hook(struct jobs *js, struct due_hook *h)
{
	h->key = (struct due_hook_key){h->id, h->attempt, h->idle};
	struct due_hook *head = key_table_get(&js->hook_heads, &h->key, sizeof(h->key));
	if (!head && key_table_put(&js->hook_heads, &h->key, sizeof(h->key), h) < 0)
		return -ENOMEM;
	if (head)
		head->last_same->next_same = h;
	(head ? head : h)->last_same = h;
	h->previous = js->last_hook;
	if (js->last_hook)
		js->last_hook->next = h;
	else
		js->hooks = h;
	js->last_hook = h;
	return 0;
}

int jobs_add_hook(struct jobs *js, struct job *job, const struct job_attempt *a, const struct record *r)
{
	int error = 0;
	const char *command = jobs_intern(js, &r->on_finish, &r->on_finish_b64, &error);
	if (!command)
		command = job->wish->on_finish;
	if (error || !command)
		return error;
	struct due_hook *h = arena_alloc(&js->arena, sizeof(*h));
	if (!h)
		return -ENOMEM;
	*h = (struct due_hook){.id = job->id,
		.attempt = a ? a->attempt : 0,
		.num_attempts = job->num_attempts,
		.state = job_is_final(job) || !a ? job->state : a->state,
		.reason = a ? NULL : job->reason,
		.command = command,
		.idle = r->event == EVENT_IDLE,
		.keeper = a && is_by_keeper(job, r) ? job->keeper : NULL};
	if (append_hook(js, h) < 0)
		return -ENOMEM;
	if (job->hooks_due < UINT8_MAX)
		job->hooks_due++;
	return 0;
}

static void remove_head(struct jobs *js, struct job *job, struct due_hook *h)
{
	if (h->previous)
		h->previous->next = h->next;
	else
		js->hooks = h->next;
	if (h->next)
		h->next->previous = h->previous;
	else
		js->last_hook = h->previous;
	if (h->next_same)
		h->next_same->last_same = h->last_same;
	/* Cannot fail: the key is in the table. */
	(void)key_table_put(&js->hook_heads, &h->key, sizeof(h->key), h->next_same);
	/* A count that has reached 255 is not decremented until the journal is read again. */
	if (job->hooks_due < UINT8_MAX)
		job->hooks_due--;
}

int jobs_apply_hook(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return 0;
	/* A new hook needs no search: many may become due at once. */
	if (!r->status.type && !r->try_number)
		return job_is_final(job) ? jobs_add_hook(js, job, NULL, r) : 0;
	jobs_follow_hook(js, job, r);
	return 0;
}

void jobs_follow_hook(struct jobs *js, struct job *job, const struct record *r)
{
	const struct due_hook_key key = {r->id, r->attempt, r->event == EVENT_IDLE};
	struct due_hook *h = key_table_get(&js->hook_heads, &key, sizeof(key));
	enum job_state state;
	if (r->status.type && h && js->on_hook_failed && job_state_parse(r->status.data, r->status.size, &state) == 0 &&
		state == JOB_FAILED)
		js->on_hook_failed(js->context, job, r);
	if (r->status.type && h)
		remove_head(js, job, h);
	if (!r->status.type && h) {
		h->tries = r->try_number > UINT8_MAX ? UINT8_MAX : (unsigned)r->try_number;
		h->keeper = r->keeper.type ? jobs_keeper(js, r->keeper.data, r->keeper.size) : NULL;
	}
}
