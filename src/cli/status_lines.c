/* SPDX-License-Identifier: MIT */
/* `gpuq status` as text. */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/terminal.h"
#include "cli/status_parts.h"
#include "queue/journal/job_line.h"

/* Counts the selected jobs by state; `hidden` of them have no line. */
static void append_counts(struct text *t, const struct jobs *js, const size_t counts[JOB_STATES], size_t hidden)
{
	static const enum job_state order[] = {
		JOB_RUNNING, JOB_PENDING, JOB_HELD, JOB_UNKNOWN, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
	size_t chosen = 0;
	for (size_t i = 0; i < JOB_STATES; i++)
		chosen += counts[i];
	if (chosen < js->count)
		text_appendf(t, "%zu of ", chosen);
	text_appendf(t, "%zu job%s", js->count, js->count == 1 ? "" : "s");
	const char *before = ":";
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (counts[order[i]]) {
			text_appendf(t, "%s %zu %s", before, counts[order[i]], job_state_name(order[i]));
			before = ",";
		}
	if (hidden)
		text_appendf(t, "; %zu not shown", hidden);
}

/* Position and reason of a waiting job. */
static int make_note(const struct status_queue *q, const struct job *job, struct text *note)
{
	text_clear(note);
	if (!q->verdicts || job->state != JOB_PENDING)
		return 0;
	text_append_char(note, '#');
	text_append_number(note, verdicts_position(q->verdicts, job));
	text_append_char(note, ' ');
	return verdicts_brief(q->verdicts, job, note);
}

/* With --watch, the screen is not cleared before it is redrawn: that would flicker. */
int status_put_lines(struct status_output *o, struct status_queue *q, size_t rows)
{
	cleanup_(text_finish) struct text note = {0};
	cleanup_(text_finish) struct text summary = {0};
	const char *end = rows ? "\033[K\n" : "\n";
	size_t counts[JOB_STATES] = {0}, chosen = q->jobs.count;
	for (size_t i = 0; i < chosen; i++)
		counts[q->jobs.jobs[i]->state]++;
	int r = rows ? job_list_fit(&q->jobs, rows > 2 ? rows - 1 : 1) : 0;
	if (r < 0)
		return r;
	struct job_line_options line = {.color = terminal_has_color() ? job_list_color : NULL,
		.width = isatty(STDOUT_FILENO) ? terminal_width() : 0,
		.now_ms = date_now_ms()};
	/* Reserve space for most notes. */
	line.note = q->verdicts ? "#1234 waits for GPUs" : NULL;
	job_list_measure(&q->jobs, q->follow->jobs.last_id, &line);
	for (size_t i = 0; r == 0 && i < q->jobs.count; i++) {
		r = make_note(q, q->jobs.jobs[i], &note);
		line.note = note.length ? text_string(&note) : NULL;
		line.keep_from = line.width ? job_list_difference(&q->jobs, i, line.command_width) : 0;
		job_line_write(&o->text, q->jobs.jobs[i], &line);
		text_append_string(&o->text, end);
		status_flush(o, STATUS_FLUSH_ABOVE);
	}
	append_counts(&summary, &q->follow->jobs, counts, chosen - q->jobs.count);
	if (q->follow->jobs.paused)
		text_append_string(&summary, "; the queue is paused ('gpuq resume')");
	if (q->label)
		text_appendf(&summary, "; %s %s", q->label, q->follow->path);
	display_append(&o->text, text_string(&summary), summary.length, rows ? line.width : DISPLAY_ALL);
	text_append_string(&o->text, end);
	return r;
}
