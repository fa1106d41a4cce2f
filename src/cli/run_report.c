/* SPDX-License-Identifier: MIT */
#include "cli/run_report.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"
#include "queue/journal/job_json.h"

int run_report_begin(struct run_report *r, struct journal *j, struct gd_error *err)
{
	struct follow f;
	int e = follow_open_journal(j, &f, err);
	if (e < 0)
		return e;
	for (size_t i = 0; e == 0 && i < f.jobs.count; i++)
		if (!job_is_final(f.jobs.by_id[i]))
			e = id_list_add(&r->open, f.jobs.by_id[i]->id);
	r->last_id = f.jobs.last_id;
	follow_close(&f);
	return e < 0 ? error_set(err, e, "cannot read journal '%s': out of memory", j->path) : 0;
}

void run_report_finish(struct run_report *r)
{
	id_list_finish(&r->open);
}

static bool is_wanted(const struct run_report *r, const struct id_list *own, const struct job *job)
{
	if (own)
		return id_list_find(own, job->id) != SIZE_MAX;
	return job->state != JOB_HELD && (job->id > r->last_id || id_list_find(&r->open, job->id) != SIZE_MAX);
}

int run_report_print(const struct run_report *r, const struct id_list *own, struct journal *j, struct gd_error *err)
{
	struct follow f;
	cleanup_(text_finish) struct text t = {0};
	size_t count = 0;
	int e = follow_open_journal(j, &f, err);
	if (e < 0)
		return e;
	text_append_char(&t, '[');
	for (size_t i = 0; i < f.jobs.count; i++) {
		if (!is_wanted(r, own, f.jobs.by_id[i]))
			continue;
		text_append_string(&t, count++ ? ",\n" : "\n");
		job_json_write(&t, f.jobs.by_id[i]);
	}
	text_append_string(&t, "\n]\n");
	follow_close(&f);
	if (text_error(&t))
		return error_set(err, -ENOMEM, "cannot print the jobs: out of memory");
	/* main() checks that it was written. */
	fwrite(t.data, 1, t.length, stdout);
	return 0;
}
