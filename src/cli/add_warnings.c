/* SPDX-License-Identifier: MIT */
/* `gpuq add`: a job that can never start is accepted, and reported at once. */
#include <inttypes.h>

#include "base/cleanup.h"
#include "cli/add_parts.h"
#include "cli/say.h"
#include "queue/journal/follow.h"
#include "queue/runner/verdicts.h"

void add_warn(const struct journal *j, const struct job_spec *spec, const struct id_list *ids, bool started)
{
	cleanup_(text_finish) struct text words = {0};
	if (verdicts_warn(j->dir_fd, spec, started, &words) < 0 || words.length == 0)
		return;
	if (ids->count == 1)
		say("job %" PRIu64 " %s", ids->ids[0], text_string(&words));
	else
		say("jobs that set no needs of their own: %s", text_string(&words));
}

void add_warn_of_dependencies(struct journal *j, const struct id_list *ids)
{
	cleanup_(text_finish) struct text words = {0};
	struct follow f;
	struct verdicts *v = NULL;
	const struct job *at;
	if (follow_open_journal(j, &f, NULL) < 0)
		return;
	const struct job *job = jobs_find(&f.jobs, ids->ids[0]);
	if (job && verdicts_open(&f, NULL, NULL, VERDICTS_QUICK, &v, NULL) == 0 &&
		verdicts_obstacle(v, job, &words, &at) == 0 && at != job && words.length > 0 && !text_error(&words))
		say("job %" PRIu64 " waits for job %" PRIu64 ", which %s", job->id, at->id, text_string(&words));
	verdicts_close(v);
	follow_close(&f);
}
