/* SPDX-License-Identifier: MIT */
#include "queue/input/pause.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/machine.h"
#include "queue/journal/follow.h"
#include "queue/keeper/keeper.h"

int pause_queue(struct journal *j, bool paused, bool *ret_changed, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	struct follow f;
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	r = journal_lock(j, err);
	if (r == 0) {
		r = follow_update(&f, err);
		*ret_changed = f.jobs.paused != paused;
		record_write_pause(&t, 0, paused);
		if (r == 0 && text_error(&t))
			r = error_set(err, -ENOMEM, "cannot write journal '%s': out of memory", j->path);
		/* Voids starts that were decided before. */
		if (r == 0 && *ret_changed)
			r = journal_raise_fence(j, err);
		if (r == 0 && *ret_changed)
			r = journal_append(j, t.data, t.length, NULL, err);
		journal_unlock(j);
	}
	if (r == 0)
		r = journal_sync(j, err);
	follow_close(&f);
	return r;
}

static int check(const struct jobs *js, uint64_t id, bool paused, struct gd_error *err)
{
	const struct job *job = jobs_find(js, id);
	const char *verb = paused ? "pause" : "resume";
	if (!job)
		return error_set(err, -ENOENT, "job %" PRIu64 ": %s", id, jobs_absence(js, id));
	if (job->state == JOB_PENDING && paused)
		return error_set(err, -EINVAL,
			"cannot pause job %" PRIu64 ": it is pending; use 'gpuq hold %" PRIu64
			"' to keep it from starting",
			id, id);
	if (job->state == JOB_HELD && !paused)
		return error_set(err, -EINVAL,
			"cannot resume job %" PRIu64 ": it is held; use 'gpuq release %" PRIu64 "' to release it", id,
			id);
	if (job->state != JOB_RUNNING)
		return error_set(err, -EINVAL, "cannot %s job %" PRIu64 ": its state is %s, not running", verb, id,
			job_state_name((enum job_state)job->state));
	if (job->paused == paused)
		return error_set(err, -EALREADY, "cannot %s job %" PRIu64 ": it is %s", verb, id,
			paused ? "already paused" : "not paused");
	return 0;
}

static int tell_keeper(const struct journal *j, const struct job *job, bool paused, struct gd_error *err)
{
	struct machine here;
	const char *verb = paused ? "pause" : "resume";
	if (job->keeper && job->keeper->is_pilot)
		return error_set(err, -EREMOTE,
			"cannot %s job %" PRIu64 ": it runs on node %s; only jobs on this machine can be paused", verb,
			job->id, *job->keeper->machine.host ? job->keeper->machine.host : "(unknown)");
	if (!job->keeper || machine_get(&here) < 0 || strcmp(job->keeper->machine.host, here.host) != 0)
		return error_set(err, -EREMOTE,
			"cannot %s job %" PRIu64 ": it runs on another machine; use that machine", verb, job->id);
	int r = keeper_pause(j, job->keeper->name, job->id, paused);
	return r < 0 ? error_set(err, r, "cannot %s job %" PRIu64 ": its keeper does not answer: %s", verb, job->id,
			       error_words(r))
		     : 0;
}

/* Call it without the lock: a keeper may wait for the lock before it answers. */
static int tell_keepers(struct journal *j, bool paused, const struct id_list *ids, const struct jobs *js,
	control_refused_fn *refused, void *context, struct id_list *told)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < ids->count; i++) {
		struct gd_error why = {0};
		if (check(js, ids->ids[i], paused, &why) < 0 ||
			tell_keeper(j, jobs_find(js, ids->ids[i]), paused, &why) < 0)
			refused(context, i, &why);
		else
			r = id_list_add(told, ids->ids[i]);
	}
	return r;
}

/* Jobs that have ended meanwhile need no record. */
static int append(struct journal *j, bool paused, const struct id_list *told, struct follow *f, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	int r = follow_update(f, err);
	for (size_t i = 0; r == 0 && i < told->count; i++) {
		const struct job *job = jobs_find(&f->jobs, told->ids[i]);
		if (job && job->state == JOB_RUNNING && job->paused != paused)
			record_write_pause(&t, job->id, paused);
	}
	if (r == 0 && text_error(&t))
		r = error_set(err, -ENOMEM, "cannot write journal '%s': out of memory", j->path);
	return r < 0 || t.length == 0 ? r : journal_append(j, t.data, t.length, NULL, err);
}

int pause_jobs(struct journal *j, bool paused, const struct id_list *ids, control_refused_fn *refused, void *context,
	size_t *ret_done, struct gd_error *err)
{
	struct follow f;
	struct id_list told = {0};
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	if (tell_keepers(j, paused, ids, &f.jobs, refused, context, &told) < 0)
		r = error_set(err, -ENOMEM, "cannot record the %s jobs in journal '%s': out of memory",
			paused ? "paused" : "resumed", j->path);
	if (r == 0 && told.count > 0)
		r = journal_lock(j, err);
	if (r == 0 && told.count > 0) {
		r = append(j, paused, &told, &f, err);
		journal_unlock(j);
	}
	if (r == 0 && told.count > 0)
		r = journal_sync(j, err);
	*ret_done = told.count;
	id_list_finish(&told);
	follow_close(&f);
	return r;
}
