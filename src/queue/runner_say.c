/* SPDX-License-Identifier: MIT */
#include "queue/runner_parts.h"

#include "queue/show.h"

void runner_tell(struct runner *r, const struct job *job)
{
	if (r->options.quiet || !r->options.out || job->state == JOB_PENDING || job->state == JOB_HELD)
		return;
	struct text t = {0};
	show_line(&t, job, &(struct show_options){.id_width = 1});
	if (text_error(&t) == 0)
		runner_say(r, "%s\n", text_string(&t));
	text_finish(&t);
}
