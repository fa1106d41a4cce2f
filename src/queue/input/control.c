/* SPDX-License-Identifier: MIT */
#include "queue/input/control.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/machine.h"
#include "queue/journal/follow.h"
#include "queue/keeper/keeper.h"
#include "queue/keeper/keeper_job.h"

struct control_result {
	struct follow follow;
	control_refused_fn *refused;
	void *context;
	size_t done;
};

static int check_control(enum event event, const struct jobs *js, uint64_t id, struct gd_error *err)
{
	const struct job *job = jobs_find(js, id);
	if (!job)
		return error_set(err, -ENOENT, "job %" PRIu64 ": %s", id, jobs_absence(js, id));
	const char *state = job_state_name((enum job_state)job->state);
	switch (event) {
	case EVENT_CANCEL:
		if (job_is_final(job))
			return error_set(
				err, -EALREADY, "cannot cancel job %" PRIu64 ": it has already ended (%s)", id, state);
		return 0;
	case EVENT_HOLD:
		if (job->state != JOB_PENDING && job->state != JOB_HELD)
			return error_set(err, -EINVAL,
				"cannot hold job %" PRIu64 ": its state is %s; only pending jobs can be held", id,
				state);
		return 0;
	case EVENT_RELEASE:
		if (job->state != JOB_HELD)
			return error_set(
				err, -EINVAL, "cannot release job %" PRIu64 ": its state is %s, not held", id, state);
		return 0;
	case EVENT_URGENT:
		if (job->state != JOB_PENDING && job->state != JOB_HELD)
			return error_set(err, -EINVAL,
				"cannot make job %" PRIu64
				" urgent: its state is %s; only pending and held jobs can be made urgent",
				id, state);
		return 0;
	case EVENT_RETRY:
		if (job->lease)
			return error_set(err, -EINVAL,
				"cannot retry job %" PRIu64
				": it ran in the terminal of 'gpuq exec'; run that command again instead",
				id);
		if (!job_is_final(job) && job->state != JOB_UNKNOWN)
			return error_set(
				err, -EINVAL, "cannot retry job %" PRIu64 ": it is %s; cancel it first", id, state);
		return 0;
	default:
		return error_set(err, -EINVAL, "job %" PRIu64 ": unknown action", id);
	}
}

/* A pilot that may be alive; NULL if there is none. */
static const struct queue_pilot *find_pilot(const struct jobs *js)
{
	const struct queue_pilot *p = js->pilots;
	while (p && p->gone)
		p = p->next;
	return p;
}

/* A record of an unknown job was lost: the job may still be running, and only its keeper or its pilot knows. */
static int check_unknown(const struct journal *j, const struct jobs *js, const struct job *job, struct gd_error *err)
{
	bool unknown = job && job->state == JOB_UNKNOWN;
	const struct queue_pilot *pilot = unknown ? find_pilot(js) : NULL;
	pid_t keeper = unknown ? keeper_job_holder(j->dir_fd, job->id) : 0;
	if (keeper == 0 && pilot)
		return error_set(err, -EBUSY,
			"job %" PRIu64
			": its state is unknown, and Slurm job %llu on node '%s' may still be running it; try again when the Slurm job has ended",
			job->id, (unsigned long long)pilot->slurm_job,
			*pilot->keeper.machine.host ? pilot->keeper.machine.host : "(unknown)");
	if (keeper == 0)
		return 0;
	if (keeper > 0)
		return error_set(err, -EBUSY,
			"job %" PRIu64
			": its state is unknown, and process %d may still be running it; wait until that process has ended",
			job->id, (int)keeper);
	return error_set(err, -EBUSY,
		"job %" PRIu64 ": its state is unknown, and it may still be running on another machine", job->id);
}

/*
 * A retry or cancel of a job that lost a record states how many records the job has now, so that the lost ones no
 * longer count as missing.
 */
static int write_control(struct text *t, const struct journal *j, enum event event, const struct job *job)
{
	unsigned char count = 0;
	if (pread(j->counts_fd, &count, 1, (off_t)job->id) < 0)
		return -errno;
	if ((event == EVENT_RETRY || event == EVENT_CANCEL) && count != job->records)
		record_write_resolution(t, event, job->id, (count + 1u) & 0xff);
	else
		record_write_control(t, event, job->id, NULL);
	return 0;
}

static int append_control(
	struct journal *j, enum event event, const struct id_list *ids, struct control_result *o, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < ids->count; i++) {
		struct gd_error why = {0};
		const struct job *job = jobs_find(&o->follow.jobs, ids->ids[i]);
		if (check_control(event, &o->follow.jobs, ids->ids[i], &why) < 0 ||
			check_unknown(j, &o->follow.jobs, job, &why) < 0) {
			o->refused(o->context, i, &why);
			continue;
		}
		int e = write_control(&t, j, event, job);
		if (e < 0)
			return error_set(err, e, "cannot read '%s/counts': %s", j->dir_path, error_words(e));
		o->done++;
	}
	if (text_error(&t))
		return error_set(err, -ENOMEM, "cannot write journal '%s': out of memory", j->path);
	if (o->done == 0)
		return 0;
	int r = journal_raise_fence(j, err);
	return r < 0 ? r : journal_append(j, t.data, t.length, NULL, err);
}

/* Only keepers on this machine: PIDs of another machine mean nothing here, and the runner there reads the line. */
static void tell_keepers(
	struct journal *j, const struct control_result *o, const struct id_list *ids, const struct machine *here)
{
	for (size_t i = 0; i < ids->count; i++) {
		const struct job *job = jobs_find(&o->follow.jobs, ids->ids[i]);
		if (!job || job->state != JOB_RUNNING || !job->keeper || job->keeper->is_pilot ||
			strcmp(job->keeper->machine.host, here->host) != 0)
			continue;
		pid_t runner = 0;
		struct gd_error why = {0};
		/* A runner would also tell the keeper. */
		if (keeper_cancel(j, job->keeper->name, job->id) != -ETIMEDOUT ||
			lock_holder_at(j->dir_fd, "runner.lock", &runner) < 0 || runner != 0)
			continue;
		error_set(&why, -ETIMEDOUT,
			"cannot cancel job %" PRIu64
			": its keeper does not answer, so the job continues until a runner "
			"reaches it; start one with 'gpuq run'",
			job->id);
		o->refused(o->context, i, &why);
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
		tell_keepers(j, &o, ids, &here);
	if (r == 0 && o.done > 0)
		r = journal_sync(j, err);
	follow_close(&o.follow);
	if (r == 0)
		*ret_done = o.done;
	return r;
}
