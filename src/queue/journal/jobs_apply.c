/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/date.h"
#include "queue/journal/jobs_private.h"

/* Only power cuts cause losses: a valid journal has few. */
#define MAX_LOSSES 65536

static void set_state(struct jobs *js, struct job *job, enum job_state state)
{
	int old = job->state;
	js->counts[old]--;
	js->counts[state]++;
	job->state = (unsigned char)state;
	job->paused = job->paused && state == JOB_RUNNING;
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

static int set_keeper(struct jobs *js, struct job *job, const struct record *r)
{
	int error = 0;
	const char *name = jobs_intern(js, &r->keeper, NULL, &error);
	if (!name)
		return error;
	job->keeper = jobs_keeper(js, name, strlen(name));
	if (job->keeper)
		return 0;
	/* The keeper's own line is missing: its machine is not known, but its lock can still be checked. */
	struct record k = {.keeper = r->keeper};
	job->keeper = jobs_add_keeper(js, &k, &error);
	return error;
}

static int apply_keeper(struct jobs *js, const struct record *r)
{
	int error = 0;
	(void)jobs_add_keeper(js, r, &error);
	return error;
}

static int apply_add(struct jobs *js, const struct record *r)
{
	int error = 0;
	if (jobs_find(js, r->id))
		return -EBADMSG;
	struct job *job = jobs_make_job(js, r, r->id, &error);
	if (!job)
		return error;
	job->records = 1;
	job->lease = r->keeper.type != 0;
	/* The member `held` of a lease is for readers that do not know leases. */
	job->state = r->held && !job->lease ? JOB_HELD : JOB_PENDING;
	if (job->lease)
		error = set_keeper(js, job, r);
	if (!error && job->state == JOB_HELD)
		error = jobs_begin_delay(js, job, r->time_ms, true);
	return error ? error : finish_new(js, job);
}

struct job *jobs_find_counted(struct jobs *js, const struct record *r)
{
	struct job *job = r->id ? jobs_find(js, r->id) : NULL;
	if (job)
		job->records = (unsigned char)(r->records >= 0 ? r->records : job->records + 1);
	return job;
}

/*
 * The last attempt, if it has this number. Earlier attempts have smaller numbers and have ended: the callers ignore
 * lines about them, so the list, which can be long, need not be searched.
 */
static struct job_attempt *last_attempt(const struct job *job, uint32_t attempt)
{
	return job->attempts && job->attempts->attempt == attempt ? job->attempts : NULL;
}

/* Ends an attempt whose end was lost, before another attempt follows. */
static void close_attempt(struct job *job)
{
	struct job_attempt *a = job->attempts;
	if (!a || a->state != JOB_RUNNING)
		return;
	a->state = JOB_FAILED;
	a->reason = REASON_END_UNKNOWN;
}

static int apply_start(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	if (jobs_is_outdated_epoch(js, r))
		return 0;
	const struct job_attempt *known = last_attempt(job, r->attempt);
	if (known && known->state == JOB_RUNNING)
		return -EBADMSG;
	/* A start of an attempt that has ended is ignored: it must not run a second time. */
	if (known || (job->attempts && r->attempt < job->attempts->attempt))
		return 0;
	close_attempt(job);
	int error = jobs_set_defaults(js, job, r);
	if (error || !jobs_make_attempt(js, job, r, &error))
		return error;
	if (r->pilot.type)
		error = jobs_set_pilot(js, job, r);
	else if (r->keeper.type)
		error = set_keeper(js, job, r);
	if (error)
		return error;
	jobs_end_delay(job, r->time_ms); /* if the release or retry was lost */
	job->cancel_requested = job->stuck = false;
	job->reason = NULL;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

/* The attempt that an end is about; NULL if there is nothing to end, or on failure with *error set. */
static struct job_attempt *ending_attempt(struct jobs *js, struct job *job, const struct record *r, int *error)
{
	struct job_attempt *a = last_attempt(job, r->attempt);
	if (a)
		return a->state == JOB_RUNNING ? a : NULL; /* only its first end counts */
	if (job->attempts && r->attempt < job->attempts->attempt)
		return NULL;
	/* The attempt's start was lost. */
	close_attempt(job);
	return jobs_make_attempt(js, job, r, error);
}

static int end_attempt(struct jobs *js, struct job_attempt *a, const struct record *r)
{
	int error = 0;
	a->reason = jobs_intern(js, &r->reason, NULL, &error);
	a->end_ms = r->time_ms;
	a->duration_ms = r->duration_ms;
	a->peak_mem_mb = r->peak_mem_mb;
	a->energy_j = r->energy_j;
	a->exit_code = (short)r->exit_code;
	a->signal = (unsigned char)r->signal;
	return error;
}

static int apply_end(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	enum job_state state;
	if (!job || !r->status.type || job_state_parse(r->status.data, r->status.size, &state) < 0)
		return -EBADMSG;
	int error = 0;
	struct job_attempt *a = ending_attempt(js, job, r, &error);
	if (a)
		error = end_attempt(js, a, r);
	if (error || !a)
		return error;
	a->state = (unsigned char)state;
	if (a->reason && strcmp(a->reason, REASON_GPU_MEMORY) == 0 && a->peak_mem_mb > job->need_mb)
		job->need_mb = a->peak_mem_mb;
	job->stuck = false;
	bool again = state == JOB_FAILED && job_has_try_left(job);
	if (state == JOB_FAILED && job->cancel_requested)
		state = JOB_CANCELLED;
	if (again)
		state = job->state == JOB_UNKNOWN ? JOB_UNKNOWN : JOB_PENDING;
	set_state(js, job, state);
	return r->hook ? jobs_add_hook(js, job, a, r) : 0;
}

/* Whether the job is cancelled, not pending again. An interrupted lease is cancelled: its `gpuq exec` has ended. */
static bool is_over_uncounted(const struct job *job, const struct record *r)
{
	return job->cancel_requested || (job->lease && r->event == EVENT_INTERRUPTED);
}

/* `interrupted` and `void`: the attempt does not count, and the job is pending again. */
static int apply_uncounted(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	int error = 0;
	if (!job)
		return -EBADMSG;
	if (r->event == EVENT_VOID && jobs_is_outdated_epoch(js, r))
		return 0;
	struct job_attempt *a = ending_attempt(js, job, r, &error);
	if (a)
		error = end_attempt(js, a, r);
	if (error || !a)
		return error;
	a->state = JOB_CANCELLED;
	a->interrupted = true;
	job->spared++;
	job->stuck = false;
	/* If its start was lost, the job may have been held or cancelled. */
	if (job->state == JOB_RUNNING)
		set_state(js, job, is_over_uncounted(job, r) ? JOB_CANCELLED : JOB_PENDING);
	return 0;
}

void jobs_lose(struct jobs *js, struct job *job)
{
	if (!job_is_final(job) && job->state != JOB_UNKNOWN)
		set_state(js, job, JOB_UNKNOWN);
}

static int apply_unknown(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	jobs_lose(js, job);
	return 0;
}

static int apply_fail(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return 0; /* it was cancelled meanwhile */
	int error = 0;
	job->reason = jobs_intern(js, &r->reason, NULL, &error);
	if (!error)
		error = jobs_begin_delay(js, job, r->time_ms, false);
	if (error)
		return error;
	set_state(js, job, JOB_FAILED);
	return jobs_add_hook(js, job, NULL, r);
}

static int apply_stuck(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_RUNNING || job->attempts->attempt != r->attempt)
		return 0; /* it has ended meanwhile */
	job->stuck = true;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

static int apply_idle(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	int error = 0;
	if (!job)
		return -EBADMSG;
	if (r->try_number || r->status.type) {
		jobs_follow_hook(js, job, r);
		return 0;
	}
	struct job_attempt *a = job->attempts;
	if (job->state != JOB_RUNNING || a->attempt != r->attempt)
		return 0; /* it has ended meanwhile */
	a->idle = jobs_make_idle(js, r, &error);
	if (error)
		return error;
	set_state(js, job, JOB_RUNNING);
	return r->hook ? jobs_add_hook(js, job, a, r) : 0;
}

/* Controls that no longer apply to the job's state are ignored: their writers could not know it. */
static int apply_control(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	bool waits = job->state == JOB_PENDING || job->state == JOB_HELD;
	int error = 0;
	if (r->event == EVENT_CANCEL && (waits || job->state == JOB_UNKNOWN)) {
		job->reason = jobs_intern(js, &r->reason, NULL, &error);
		if (!error)
			error = jobs_begin_delay(js, job, r->time_ms, false);
		set_state(js, job, JOB_CANCELLED);
		/* With a reason, the job was never accepted, or its `gpuq exec` no longer waits: no hook. */
		if (!error && !job->reason)
			error = jobs_add_hook(js, job, NULL, r);
	} else if (r->event == EVENT_CANCEL && job->state == JOB_RUNNING) {
		job->cancel_requested = true;
		set_state(js, job, JOB_RUNNING);
	} else if (r->event == EVENT_HOLD && job->state == JOB_PENDING) {
		error = jobs_begin_delay(js, job, r->time_ms, true);
		set_state(js, job, JOB_HELD);
	} else if (r->event == EVENT_RELEASE && job->state == JOB_HELD) {
		jobs_end_delay(job, r->time_ms);
		set_state(js, job, JOB_PENDING);
	} else if (r->event == EVENT_URGENT && waits) {
		job->priority = JOB_URGENT;
		set_state(js, job, (enum job_state)job->state);
	} else if (r->event == EVENT_RETRY && !job->lease && (job_is_final(job) || job->state == JOB_UNKNOWN)) {
		close_attempt(job);
		error = jobs_delay_until_retry(js, job, r->time_ms);
		job->spared = job->num_attempts;
		job->reason = NULL;
		job->cancel_requested = false;
		set_state(js, job, JOB_PENDING);
	}
	return error;
}

/* Replaces all options. The job cannot have started before this line: the fence prevents that. */
static int apply_edit(struct jobs *js, const struct record *r)
{
	int error = 0;
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return 0;
	const struct job *changed = jobs_make_job(js, r, r->id, &error);
	if (!changed)
		return error;
	job->command = changed->command;
	job->command_size = changed->command_size;
	job->name = changed->name;
	job->wish = changed->wish;
	job->after = changed->after;
	job->num_after_any = changed->num_after_any;
	job->priority = changed->priority;
	set_state(js, job, (enum job_state)job->state);
	return 0;
}

static int apply_pause(struct jobs *js, const struct record *r)
{
	if (!r->id)
		return jobs_pause(js, r->paused, r->time_ms);
	struct job *job = jobs_find_counted(js, r);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_RUNNING || job->paused == r->paused)
		return 0;
	job->paused = r->paused;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

/* The original gpu_dispatch wrote times with Python's isoformat(), or as seconds since 1970. */
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
	/* The original gpu_dispatch had one commands file, whose name it did not record. */
	r->file = (struct json_value){.type = JSON_STRING, .data = JOB_ANY_FILE};
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
		/* Whether it still runs, and how it ended, was not recorded: it must not restart by itself. */
		if (state == JOB_RUNNING)
			a->reason = REASON_END_UNKNOWN;
		state = state == JOB_RUNNING ? JOB_FAILED : state;
		a->exit_code = state == JOB_COMPLETED ? 0 : (short)r->exit_code;
		a->state = (unsigned char)state;
	}
	job->state = (unsigned char)state;
	return finish_new(js, job);
}

/* 32 hexadecimal digits. Commands print it as it is, and another user may have written the journal. */
static bool is_queue_id(const struct json_value *id)
{
	for (size_t i = 0; i < id->size; i++)
		if (!isxdigit((unsigned char)id->data[i]))
			return false;
	return id->size == sizeof(((struct jobs *)NULL)->queue) - 1;
}

/* Sets the version even for the journal of a newer gpuq, which is refused. */
static int apply_header(struct jobs *js, const struct record *r)
{
	js->version = r->version;
	if (r->version > RECORD_VERSION)
		return -ENOTSUP;
	if (is_queue_id(&r->queue)) {
		memcpy(js->queue, r->queue.data, sizeof(js->queue) - 1);
		js->generation = r->generation > 0 ? (uint64_t)r->generation : 0;
	}
	js->first_id = r->next_id > 0 ? (uint64_t)r->next_id : 1;
	return 0;
}

static int apply_lost(struct jobs *js, const struct record *r)
{
	js->lines_lost = true;
	if (r->from == 0 && r->to == 0)
		return 0;
	if (r->from <= 0 || r->to < r->from || r->to >= (int64_t)JOB_MAX_ID || js->lost_ids.count >= MAX_LOSSES)
		return -EBADMSG;
	return number_set_add(&js->lost_ids, (uint64_t)r->from, (uint64_t)r->to);
}

static int apply(struct jobs *js, struct record *r)
{
	if (r->must && (r->unknown_member || r->event == EVENT_UNKNOWN))
		return -ENOTSUP;
	switch (r->event) {
	case EVENT_JOURNAL:
		return apply_header(js, r);
	case EVENT_ADD:
		return apply_add(js, r);
	case EVENT_KEEPER:
		return apply_keeper(js, r);
	case EVENT_START:
		return apply_start(js, r);
	case EVENT_END:
		return apply_end(js, r);
	case EVENT_INTERRUPTED:
	case EVENT_VOID:
		return apply_uncounted(js, r);
	case EVENT_UNKNOWN_JOB:
		return apply_unknown(js, r);
	case EVENT_FAIL:
		return apply_fail(js, r);
	case EVENT_STUCK:
		return apply_stuck(js, r);
	case EVENT_IDLE:
		return apply_idle(js, r);
	case EVENT_HOOK:
		return jobs_apply_hook(js, r);
	case EVENT_CANCEL:
	case EVENT_HOLD:
	case EVENT_RELEASE:
	case EVENT_URGENT:
	case EVENT_RETRY:
		return apply_control(js, r);
	case EVENT_EDIT:
		return apply_edit(js, r);
	case EVENT_PAUSE:
		return apply_pause(js, r);
	case EVENT_SEEN:
		return jobs_add_seen(js, r);
	case EVENT_LOSS:
		return r->from > 0 && r->to >= r->from && js->losses.count < MAX_LOSSES
			       ? number_set_add(&js->losses, (uint64_t)r->from, (uint64_t)r->to)
			       : -EBADMSG;
	case EVENT_LOST:
		return apply_lost(js, r);
	case EVENT_LEGACY:
		return apply_legacy(js, r);
	case EVENT_COORDINATOR:
		return jobs_apply_coordinator(js, r);
	case EVENT_PILOT:
		return jobs_apply_pilot(js, r);
	case EVENT_UNKNOWN:
	case EVENT_GRANT:
		jobs_find_counted(js, r);
		return 0;
	}
	return 0;
}

int jobs_apply(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct jobs *js = context;
	struct record r;
	int error = size == 0 ? 0 : record_parse(line, size, &r);
	bool parsed = error == 0 && size > 0;
	if (parsed)
		error = apply(js, &r);
	if (parsed && error == -EBADMSG && r.id && r.event != EVENT_ADD && !jobs_find(js, r.id)) {
		js->orphaned_lines++;
		return 0;
	}
	if (error == -EBADMSG) {
		if (js->bad_lines++ == 0)
			js->first_bad_line = line_no;
		return 0;
	}
	return error;
}
