/* SPDX-License-Identifier: MIT */
#include "queue/input/edit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "queue/input/submit.h"
#include "queue/journal/follow.h"
#include "queue/journal/record.h"

static int check_state(const struct jobs *js, uint64_t id, struct gd_error *err)
{
	const struct job *job = jobs_find(js, id);
	if (!job)
		return error_set(err, -ENOENT, "job %" PRIu64 ": %s", id, jobs_absence(js, id));
	if (job->state == JOB_RUNNING)
		return error_set(err, -EINVAL, "cannot edit job %" PRIu64 ": it has already started", id);
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return error_set(err, -EINVAL,
			"cannot edit job %" PRIu64 ": its state is %s; only pending and held jobs can be edited", id,
			job_state_name((enum job_state)job->state));
	return 0;
}

/* A job may wait only for jobs that were added before it, so that there are no cycles. */
static int check_order(const struct job_spec *spec, uint64_t id, struct gd_error *err)
{
	uint64_t last = spec->num_after ? spec->after[spec->num_after - 1] : 0;
	uint64_t last_any = spec->num_after_any ? spec->after_any[spec->num_after_any - 1] : 0;
	last = last > last_any ? last : last_any;
	if (last < id)
		return 0;
	return error_set(err, -EINVAL,
		"cannot edit job %" PRIu64 ": it cannot wait for job %" PRIu64
		"; a job can wait only for jobs that were added before it",
		id, last);
}

/* Records that this line of the commands file was added, so that it is not added again after its job was edited. */
static void write_seen_line(struct text *t, const struct job *job)
{
	char hash[HASH_TEXT];
	hash_format(hash_bytes(job->command, job->command_size), hash);
	record_begin_seen(t, job->wish->file);
	text_append(t, hash, HASH_TEXT - 1);
	text_append_string(t, "\"}\n");
}

static int edit_one(
	const struct edit *e, const struct jobs *js, const struct job *job, struct text *t, struct gd_error *err)
{
	struct job_spec spec;
	struct job_after after = {0};
	struct gd_error why;
	record_spec_of(job, &spec);
	if (job->lease && e->command)
		return error_set(err, -EINVAL,
			"cannot edit job %" PRIu64 ": its command belongs to a 'gpuq exec' that waits for it", job->id);
	int r = job_options_resolve(&e->options, js, NULL, &after, &spec, &why);
	if (r == 0)
		r = job_options_apply(&e->options, &spec, &why);
	if (r < 0)
		error_set(err, r, "cannot edit job %" PRIu64 ": %s", job->id, why.message);
	if (r == 0 && job_options_have_after(&e->options))
		r = check_order(&spec, job->id, err);
	if (r == 0 && e->command) {
		spec.command = e->command;
		spec.command_size = strlen(e->command);
		r = submit_check_size(spec.command_size, err);
		if (r == 0 && spec.file &&
			(spec.command_size != job->command_size ||
				memcmp(spec.command, job->command, spec.command_size) != 0)) {
			write_seen_line(t, job);
			spec.file = NULL;
		}
	}
	if (r == 0)
		record_write_edit(t, job->id, &spec);
	job_after_finish(&after);
	return r;
}

/* Called under the lock, after all lines were read. */
static int append_edits(struct journal *j, const struct job_selection *selection, const struct edit *e,
	const struct jobs *js, struct edit_result *result, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(id_list_finish) struct id_list ids = {0};
	size_t num_named = 0;
	int r = job_selection_resolve(selection, js, &ids, &num_named, err);
	for (size_t i = 0; r == 0 && i < ids.count; i++) {
		r = check_state(js, ids.ids[i], err);
		if (r < 0 && i >= num_named) {
			r = 0;
			continue;
		}
		const struct job *job = jobs_find(js, ids.ids[i]);
		if (r == 0)
			r = edit_one(e, js, job, &t, err);
		if (r == 0) {
			result->done++;
			result->pending += job->state == JOB_PENDING;
			if (id_list_add(&result->ids, job->id) < 0)
				r = error_set(err, -ENOMEM, "cannot edit job %" PRIu64 ": out of memory", job->id);
		}
	}
	if (r < 0 || result->done == 0)
		return r;
	if (text_error(&t))
		return error_set(err, -ENOMEM, "cannot write journal '%s': out of memory", j->path);
	r = journal_raise_fence(j, err);
	return r < 0 ? r : journal_append(j, t.data, t.length, NULL, err);
}

void edit_result_finish(struct edit_result *result)
{
	id_list_finish(&result->ids);
}

int edit_jobs(struct journal *j, const struct job_selection *jobs, const struct edit *e, struct edit_result *ret,
	struct gd_error *err)
{
	struct follow f;
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	r = journal_lock(j, err);
	if (r == 0) {
		r = follow_update(&f, err);
		if (r == 0)
			r = append_edits(j, jobs, e, &f.jobs, ret, err);
		journal_unlock(j);
	}
	if (r == 0 && ret->done > 0)
		r = journal_sync(j, err);
	follow_close(&f);
	return r;
}
