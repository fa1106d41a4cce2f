/* SPDX-License-Identifier: MIT */
#include "queue/input/control.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/machine.h"
#include "queue/journal/follow.h"
#include "queue/keeper/keeper.h"

struct control_result {
	struct follow follow;
	control_refused_fn *refused;
	void *context;
	size_t done;
};

static int check_control(enum event event, const struct job *job, uint64_t id, struct gd_error *err)
{
	if (!job)
		return error_set(err, -ENOENT, "job %" PRIu64 ": there is no such job", id);
	const char *state = job_state_name((enum job_state)job->state);
	switch (event) {
	case EVENT_CANCEL:
		if (job_is_final(job))
			return error_set(err, -EALREADY, "cancelling job %" PRIu64 ": it is %s already", id, state);
		return 0;
	case EVENT_HOLD:
		if (job->state != JOB_PENDING && job->state != JOB_HELD)
			return error_set(err, -EINVAL,
				"holding job %" PRIu64 ": it is %s; only a pending one can be held", id, state);
		return 0;
	case EVENT_RELEASE:
		if (job->state != JOB_HELD)
			return error_set(err, -EINVAL, "releasing job %" PRIu64 ": it is %s, not held", id, state);
		return 0;
	case EVENT_URGENT:
		if (job->state != JOB_PENDING && job->state != JOB_HELD)
			return error_set(err, -EINVAL, "making job %" PRIu64 " urgent: it is %s already", id, state);
		return 0;
	case EVENT_RETRY:
		if (!job_is_final(job))
			return error_set(
				err, -EINVAL, "retrying job %" PRIu64 ": it is %s; cancel it first", id, state);
		return 0;
	default:
		return error_set(err, -EINVAL, "job %" PRIu64 ": not an order", id);
	}
}

static int append_control(
	struct journal *j, enum event event, const struct id_list *ids, struct control_result *o, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < ids->count; i++) {
		struct gd_error why = {0};
		if (check_control(event, jobs_find(&o->follow.jobs, ids->ids[i]), ids->ids[i], &why) < 0) {
			o->refused(o->context, i, &why);
			continue;
		}
		record_write_control(&t, event, ids->ids[i], NULL);
		o->done++;
	}
	if (text_error(&t))
		return error_set(err, -ENOMEM, "writing journal '%s': out of memory", j->path);
	if (o->done == 0)
		return 0;
	int r = journal_raise_fence(j, err);
	return r < 0 ? r : journal_append(j, t.data, t.length, NULL, err);
}

/* On another machine the runner there sees the line: its PIDs mean nothing here. */
static void tell_keepers(
	struct journal *j, const struct jobs *js, const struct id_list *ids, const struct machine *here)
{
	for (size_t i = 0; i < ids->count; i++) {
		const struct job *job = jobs_find(js, ids->ids[i]);
		if (job && job->state == JOB_RUNNING && job->keeper &&
			strcmp(job->keeper->machine.host, here->host) == 0)
			keeper_signal_cancel(j, job->keeper->name, job->id, false);
	}
}

int control_jobs(struct journal *j, enum event event, const struct id_list *ids, control_refused_fn *refused,
	void *context, size_t *ret_done, struct gd_error *err)
{
	struct control_result o = {.refused = refused, .context = context};
	int r = follow_open_journal(j, &o.follow, err);
	if (r < 0)
		return r;
	r = journal_lock(j, err);
	if (r == 0) {
		r = follow_update(&o.follow, err);
		if (r == 0)
			r = append_control(j, event, ids, &o, err);
		journal_unlock(j);
	}
	struct machine here;
	if (r == 0 && event == EVENT_CANCEL && machine_get(&here) == 0)
		tell_keepers(j, &o.follow.jobs, ids, &here);
	if (r == 0 && o.done > 0)
		r = journal_sync(j, err);
	follow_close(&o.follow);
	if (r == 0)
		*ret_done = o.done;
	return r;
}
