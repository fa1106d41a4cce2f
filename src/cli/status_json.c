/* SPDX-License-Identifier: MIT */
/* `gpuq status --json`. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json_put.h"
#include "cli/status_parts.h"
#include "queue/journal/job_json.h"

void status_flush(struct status_output *o, size_t above)
{
	if (o->text.length <= above)
		return;
	if (text_error(&o->text))
		o->error = -ENOMEM;
	else if (!o->error)
		o->error = file_write_all(STDOUT_FILENO, o->text.data, o->text.length);
	text_clear(&o->text);
}

int status_put_wait(struct text *t, const struct job *job, struct verdicts *v)
{
	cleanup_(text_finish) struct text words = {0};
	size_t position = v ? verdicts_position(v, job) : 0;
	int r = v ? verdicts_brief(v, job, &words) : 0;
	if (position > 0)
		json_put_int(t, "position", (int64_t)position);
	else
		json_put_null(t, "position");
	if (words.length > 0)
		json_put_string(t, "waits", text_string(&words));
	else
		json_put_null(t, "waits");
	struct expected_start e = {0};
	if (v && r == 0)
		r = verdicts_expected(v, job, &e);
	if (e.known) {
		json_open(t, "expected_start", '{');
		json_put_seconds(t, "in", (int64_t)e.median_ms);
		json_put_seconds(t, "low", (int64_t)e.low_ms);
		json_put_seconds(t, "high", (int64_t)e.high_ms);
		json_put_bool(t, "at_most", e.at_most);
		json_close(t, '}');
	} else {
		json_put_null(t, "expected_start");
	}
	return r < 0 ? r : text_error(&words);
}

int status_put_json(struct status_output *o, const struct status_queue *q, const char *queue)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < q->jobs.count; i++) {
		const struct job *job = q->jobs.jobs[i];
		text_append_string(&o->text, o->num_objects++ ? ",\n" : "\n");
		job_json_write_open(&o->text, job);
		r = status_put_wait(&o->text, job, q->verdicts);
		if (queue)
			json_put_any(&o->text, "queue", queue, strlen(queue));
		json_close(&o->text, '}');
		status_flush(o, STATUS_FLUSH_ABOVE);
	}
	return r;
}
