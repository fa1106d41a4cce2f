/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/date.h"
#include "queue/journal/jobs_private.h"

static void set_state(struct jobs *js, struct job *job, enum job_state state)
{
	int old = job->state;
	js->counts[old]--;
	js->counts[state]++;
	job->state = (unsigned char)state;
	if (js->on_change)
		js->on_change(js->context, job, old);
}

static int finish_new(struct jobs *js, struct job *job)
{
	int r = jobs_insert(js, job);
	if (r < 0)
		return r;
	js->counts[job->state]++;
	if (js->on_change)
		js->on_change(js->context, job, -1);
	return 0;
}

static int apply_add(struct jobs *js, const struct record *r)
{
	int error = 0;
	if (jobs_find(js, r->id))
		return -EBADMSG;
	struct job *job = jobs_make_job(js, r, r->id, &error);
	if (!job)
		return error;
	job->state = r->held ? JOB_HELD : JOB_PENDING;
	return finish_new(js, job);
}

static int apply_start(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job || job->state == JOB_RUNNING)
		return -EBADMSG;
	int error = jobs_set_retries(js, job, r->retries);
	if (error || !jobs_make_attempt(js, job, r, &error))
		return error;
	if (r->keeper.type && !(job->keeper = jobs_keeper(js, r->keeper.data, r->keeper.size))) {
		/* The keeper's own line is missing: its machine is not known, but its lock can still be checked. */
		struct record k = {.keeper = r->keeper};
		error = jobs_add_keeper(js, &k);
		if (error)
			return error;
		job->keeper = js->keepers[js->num_keepers - 1];
	}
	job->cancel_requested = job->stuck = job->hook_due = false;
	job->reason = NULL;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

static int apply_end(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	enum job_state state;
	if (!job || job->state != JOB_RUNNING || job->attempts->attempt != r->attempt || !r->status.type ||
		job_state_parse(r->status.data, r->status.size, &state) < 0)
		return -EBADMSG;
	int error = 0;
	struct job_attempt *a = job->attempts;
	a->reason = jobs_intern(js, &r->reason, NULL, &error);
	if (error)
		return error;
	a->end_ms = r->time_ms;
	a->duration_ms = r->duration_ms;
	a->peak_mem_mb = r->peak_mem_mb;
	a->exit_code = (short)r->exit_code;
	a->signal = (unsigned char)r->signal;
	a->state = (unsigned char)state;
	if (a->reason && strcmp(a->reason, REASON_GPU_MEMORY) == 0 && a->peak_mem_mb > job->need_mb)
		job->need_mb = a->peak_mem_mb;
	job->stuck = false;
	job->hook_due = r->by.type && json_is(&r->by, "runner");
	bool again = state == JOB_FAILED && job_has_try_left(job);
	if (state == JOB_FAILED && job->cancel_requested)
		state = JOB_CANCELLED;
	set_state(js, job, again ? JOB_PENDING : state);
	return 0;
}

static int apply_fail(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return 0; /* it was cancelled in the meantime */
	int error = 0;
	job->reason = jobs_intern(js, &r->reason, NULL, &error);
	if (error)
		return error;
	job->hook_due = true;
	set_state(js, job, JOB_FAILED);
	return 0;
}

static int apply_stuck(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_RUNNING || job->attempts->attempt != r->attempt)
		return 0; /* it has ended in the meantime */
	job->stuck = true;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

static int apply_hook(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	/* The job may have been pruned between its end and this line. */
	if (job)
		job->hook_due = false;
	return 0;
}

/* Controls that no longer apply to the job's state are ignored: their writers could not know it. */
static int apply_control(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	bool waits = job->state == JOB_PENDING || job->state == JOB_HELD;
	int error = 0;
	if (r->event == EVENT_CANCEL && waits) {
		job->reason = jobs_intern(js, &r->reason, NULL, &error);
		/* A cancellation with a reason takes back a job that was never accepted: no hook. */
		job->hook_due = !job->reason;
		set_state(js, job, JOB_CANCELLED);
	} else if (r->event == EVENT_CANCEL && job->state == JOB_RUNNING) {
		job->cancel_requested = true;
		set_state(js, job, JOB_RUNNING);
	} else if (r->event == EVENT_HOLD && job->state == JOB_PENDING) {
		set_state(js, job, JOB_HELD);
	} else if (r->event == EVENT_RELEASE && job->state == JOB_HELD) {
		set_state(js, job, JOB_PENDING);
	} else if (r->event == EVENT_URGENT && waits) {
		job->priority = JOB_URGENT;
		set_state(js, job, (enum job_state)job->state);
	} else if (r->event == EVENT_RETRY && job_is_final(job)) {
		job->spared = job->num_attempts;
		job->reason = NULL;
		job->cancel_requested = job->hook_due = false;
		set_state(js, job, JOB_PENDING);
	}
	return error;
}

/* The first gpu_dispatch wrote times with Python's isoformat(), or as seconds since 1970. */
static int64_t legacy_time(const struct json_value *v)
{
	int64_t ms;
	double s;
	if (v->type == JSON_STRING && date_parse(v->data, v->size, &ms) == 0)
		return ms;
	if (v->type == JSON_NUMBER && json_to_double(v, &s) == 0 && s > 0 && s < 1e12)
		return (int64_t)(s * 1000);
	return 0;
}

static int apply_legacy(struct jobs *js, struct record *r)
{
	enum job_state state;
	int error = 0;
	if (job_state_parse(r->status.data, r->status.size, &state) < 0 || state == JOB_HELD)
		return -EBADMSG;
	struct job *job = jobs_make_job(js, r, js->last_id + 1, &error);
	if (!job)
		return error;
	job->legacy = true;
	r->time_ms = legacy_time(&r->start_time);
	job->submit_ms = r->time_ms;
	if (state != JOB_PENDING) {
		struct job_attempt *a = jobs_make_attempt(js, job, r, &error);
		if (!a)
			return error;
		/* Whether it still runs, and how it ended, was not recorded: it must not start again unasked. */
		if (state == JOB_RUNNING)
			a->reason = REASON_END_UNKNOWN;
		state = state == JOB_RUNNING ? JOB_FAILED : state;
		a->exit_code = state == JOB_COMPLETED ? 0 : (short)r->exit_code;
		a->state = (unsigned char)state;
	}
	job->state = (unsigned char)state;
	return finish_new(js, job);
}

static int apply(struct jobs *js, struct record *r)
{
	switch (r->event) {
	case EVENT_JOURNAL:
		js->version = r->version;
		return r->version > RECORD_VERSION ? -ENOTSUP : 0;
	case EVENT_ADD:
		return apply_add(js, r);
	case EVENT_KEEPER:
		return jobs_add_keeper(js, r);
	case EVENT_START:
		return apply_start(js, r);
	case EVENT_END:
		return apply_end(js, r);
	case EVENT_FAIL:
		return apply_fail(js, r);
	case EVENT_STUCK:
		return apply_stuck(js, r);
	case EVENT_HOOK:
		return apply_hook(js, r);
	case EVENT_CANCEL:
	case EVENT_HOLD:
	case EVENT_RELEASE:
	case EVENT_URGENT:
	case EVENT_RETRY:
		return apply_control(js, r);
	case EVENT_SEEN:
		return jobs_add_seen(js, r);
	case EVENT_LEGACY:
		return apply_legacy(js, r);
	case EVENT_UNKNOWN:
		return 0;
	}
	return 0;
}

int jobs_apply(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct jobs *js = context;
	struct record r;
	int error = size == 0 ? 0 : record_parse(line, size, &r);
	if (error == 0 && size > 0)
		error = apply(js, &r);
	if (error == -EBADMSG) {
		if (js->bad_lines++ == 0)
			js->first_bad_line = line_no;
		return 0;
	}
	return error;
}
