/* SPDX-License-Identifier: MIT */
/* The list of due hooks. It is short, or its hooks are run from its beginning, so searches are short. */
#include <errno.h>

#include "queue/journal/jobs_private.h"

/* Whether the keeper recorded the end: that keeper runs the hook if it is alive. Pilots run no hooks. */
static bool is_by_keeper(const struct job *job, const struct record *r)
{
	return r->event != EVENT_IDLE && !(r->by.type && json_is(&r->by, "runner")) && job->keeper &&
	       !job->keeper->is_pilot;
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
	if (js->last_hook)
		js->last_hook->next = h;
	else
		js->hooks = h;
	js->last_hook = h;
	if (job->hooks_due < UINT8_MAX)
		job->hooks_due++;
	return 0;
}

static void remove_hook(struct jobs *js, struct job *job, struct due_hook *h, struct due_hook *before)
{
	if (before)
		before->next = h->next;
	else
		js->hooks = h->next;
	if (js->last_hook == h)
		js->last_hook = before;
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
	struct due_hook *h = js->hooks, *before = NULL;
	bool idle = r->event == EVENT_IDLE;
	while (h && (h->id != r->id || h->attempt != r->attempt || h->idle != idle)) {
		before = h;
		h = h->next;
	}
	enum job_state state;
	if (r->status.type && h && js->on_hook_failed && job_state_parse(r->status.data, r->status.size, &state) == 0 &&
		state == JOB_FAILED)
		js->on_hook_failed(js->context, job, r);
	if (r->status.type && h)
		remove_hook(js, job, h, before);
	if (!r->status.type && h) {
		h->tries = r->try_number > UINT8_MAX ? UINT8_MAX : (unsigned)r->try_number;
		h->keeper = r->keeper.type ? jobs_keeper(js, r->keeper.data, r->keeper.size) : NULL;
	}
}
