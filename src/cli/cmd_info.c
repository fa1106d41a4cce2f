/* SPDX-License-Identifier: MIT */
/* gpuq info: prints all details of a job. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/signals.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/status_parts.h"
#include "queue/journal/job_line.h"

enum { OPTION_JSON = 0x200 };

struct info {
	struct queue_choice queue;
	struct job_selection selection;
	bool json;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"json", OPTION_JSON, 0, 0, "Print a JSON array of objects, as 'gpuq status --json' does", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info *i = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &i->queue;
		return 0;
	case OPTION_JSON:
		i->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&i->selection, arg, &i->err) < 0)
			arguments_error(state, "%s", i->err.message);
		return 0;
	case ARGP_KEY_END:
		if (i->selection.count == 0)
			argp_error(state, "no job given; 'gpuq status' lists all jobs, @ is the last one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- Lines -------------------------------------------------------------------------- */

static void put_label(struct text *t, const char *label)
{
	text_appendf(t, "  %-15s", label);
}

static void put_string(struct text *t, const char *label, const char *value)
{
	if (!value)
		return;
	put_label(t, label);
	display_append(t, value, strlen(value), DISPLAY_ALL);
	text_append_char(t, '\n');
}

static void put_size(struct text *t, const char *label, int64_t mb)
{
	char size[UNITS_ROOM];
	if (mb > 0)
		put_string(t, label, units_format_size((uint64_t)mb * UNITS_MB, size));
}

static void put_time(struct text *t, const char *label, int64_t ms)
{
	char date[DATE_TEXT];
	if (!ms)
		return;
	date_format(ms, date);
	put_string(t, label, date);
}

static void put_number(struct text *t, const char *label, int64_t n)
{
	put_label(t, label);
	text_appendf(t, "%" PRId64 "\n", n);
}

static void put_needs(struct text *t, const struct job_wish *w)
{
	char duration[UNITS_ROOM];
	put_number(t, "GPUs", w->num_gpus < 0 ? 1 : w->num_gpus);
	put_string(t, "only on GPU", w->gpu);
	if (w->exclusive)
		put_string(t, "exclusive", "yes");
	put_size(t, "GPU memory", w->mem_mb);
	put_size(t, "free memory", w->min_free_mem_mb);
	put_size(t, "main memory", w->host_mem_mb);
	if (w->cpus > 0)
		put_number(t, "CPUs", w->cpus);
	if (w->timeout_ms > 0)
		put_string(t, "time limit", units_format_duration((uint64_t)w->timeout_ms, duration));
	if (w->has_retries)
		put_number(t, "retries", w->retries);
}

static void put_ids(struct text *t, const char *label, const uint64_t *ids, uint64_t count)
{
	if (count == 0)
		return;
	put_label(t, label);
	for (uint64_t i = 0; i < count; i++)
		text_appendf(t, "%s%" PRIu64, i > 0 ? ", " : "", ids[i]);
	text_append_char(t, '\n');
}

static void put_after(struct text *t, const struct job *job)
{
	if (!job->after)
		return;
	uint64_t all = job->after[0], completed = all - job->num_after_any;
	put_ids(t, "after", job->after + 1, completed);
	put_ids(t, "after any end", job->after + 1 + completed, job->num_after_any);
}

static void put_checkpoint(struct text *t, const struct job_wish *w)
{
	char duration[UNITS_ROOM];
	if (w->warn_signal) {
		put_label(t, "signal");
		text_appendf(t, "%s, %s before the time limit\n", signal_name(w->warn_signal),
			units_format_duration((uint64_t)w->warn_before_ms, duration));
	}
	if (w->requeue_on)
		put_number(t, "requeue on", w->requeue_on);
	if (w->idle_warn_ms)
		put_string(t, "idle warning",
			w->idle_warn_ms > 0 ? units_format_duration((uint64_t)w->idle_warn_ms, duration) : "never");
}

static void put_idle(struct text *t, const struct job_attempt *a)
{
	char words[UNITS_ROOM];
	if (!a->idle)
		return;
	put_label(t, job_attempt_is_idle(a) ? "  GPUs idle now" : "  GPUs idle");
	text_appendf(
		t, "%s of GPU time", units_format_duration((uint64_t)job_attempt_idle_ms(a, date_now_ms()), words));
	for (size_t i = 0; job_attempt_is_idle(a) && i < a->idle->num_gpus; i++)
		text_appendf(t, "%s%d", i ? "," : "; GPU ", a->idle->gpus[i]);
	text_append_char(t, '\n');
}

/* Oldest first; the list has the newest first. */
static void put_attempts(struct text *t, const struct job_attempt *a)
{
	char duration[UNITS_ROOM], size[UNITS_ROOM];
	if (!a)
		return;
	put_attempts(t, a->earlier);
	text_appendf(t, "  attempt %u: %s", a->attempt,
		a->interrupted ? "interrupted" : job_state_name((enum job_state)a->state));
	if (a->state != JOB_RUNNING && a->signal)
		text_appendf(t, " (signal %d)", a->signal);
	else if (a->state != JOB_RUNNING && a->exit_code >= 0)
		text_appendf(t, " (exit %d)", a->exit_code);
	text_append_char(t, '\n');
	if (a->num_gpus > 0) {
		put_label(t, "  GPU");
		for (int i = 0; i < a->num_gpus; i++)
			text_appendf(t, "%s%d", i ? "," : "", a->gpus[i]);
		text_append_char(t, '\n');
	}
	if (a->pid > 0)
		put_number(t, "  PID", a->pid);
	put_time(t, "  started", a->start_ms);
	put_time(t, "  ended", a->end_ms);
	if (a->duration_ms >= 0)
		put_string(t, "  duration", units_format_duration((uint64_t)a->duration_ms, duration));
	put_string(t, "  reason", a->reason);
	if (a->peak_mem_mb >= 0)
		put_string(t, "  peak memory", units_format_size((uint64_t)a->peak_mem_mb * UNITS_MB, size));
	if (a->energy_j >= 0)
		put_string(t, "  energy", units_format_energy((uint64_t)a->energy_j, size));
	put_idle(t, a);
	put_string(t, "  log", a->log);
}

static int put_wait(struct text *t, struct verdicts *v, const struct job *job)
{
	cleanup_(text_finish) struct text words = {0};
	char low[UNITS_ROOM], high[UNITS_ROOM];
	struct expected_start e = {0};
	if (!v || job->state != JOB_PENDING)
		return 0;
	int r = verdicts_brief(v, job, &words);
	put_number(t, "position", (int64_t)verdicts_position(v, job));
	if (words.length)
		put_string(t, "waits", text_string(&words));
	if (r == 0)
		r = verdicts_expected(v, job, &e);
	if (e.known) {
		put_label(t, "starts in");
		text_appendf(t, "%s to %s\n", units_format_duration((uint64_t)e.low_ms, low),
			units_format_duration((uint64_t)e.high_ms, high));
	}
	return r < 0 ? r : text_error(&words);
}

static int put_job(struct text *t, struct verdicts *v, const struct job *job)
{
	char group[JOB_GROUP_ROOM];
	cleanup_(text_finish) struct text state = {0};
	const struct job_wish *w = job->wish;
	text_appendf(t, "job %" PRIu64 "\n", job->id);
	cleanup_(text_finish) struct text scratch = {0};
	put_label(t, "command");
	size_t command_size;
	const char *command = job_line_command(job, &scratch, &command_size);
	display_append(t, command, command_size, DISPLAY_ALL);
	text_append_char(t, '\n');
	job_line_write_outcome(&state, job);
	put_string(t, "status", text_string(&state));
	int r = put_wait(t, v, job);
	put_string(t, "name", job->name);
	put_string(t, "group", job->group ? job_group_name(job->group, group) : NULL);
	put_string(t, "tags", w->tags);
	if (job->array_index >= 0)
		put_number(t, "array index", job->array_index);
	put_string(t, "directory", w->cwd);
	put_string(t, "git commit", w->commit);
	put_string(t, "script", w->script);
	put_time(t, "added", job->submit_ms);
	put_string(t, "commands file", w->file && *w->file ? w->file : NULL);
	if (job->priority)
		put_number(t, "priority", job->priority);
	put_after(t, job);
	put_time(t, "begins", w->begin_ms);
	put_needs(t, w);
	put_checkpoint(t, w);
	put_size(t, "learned need", job->need_mb);
	put_string(t, "on finish", w->on_finish);
	put_string(t, "on idle", w->on_idle);
	put_string(t, "host", job->keeper ? job->keeper->machine.host : NULL);
	put_string(t, "reason", job->attempts ? NULL : job->reason);
	put_attempts(t, job->attempts);
	return r < 0 ? r : text_error(&state);
}

/* ---- The command -------------------------------------------------------------------- */

static int choose(struct info *i, const struct follow *f, struct job_list *l)
{
	struct id_list ids = {0};
	int r = job_selection_resolve(&i->selection, &f->jobs, &ids, NULL, &i->err);
	for (size_t n = 0; r == 0 && n < ids.count; n++) {
		const struct job *job = jobs_find(&f->jobs, ids.ids[n]);
		if (!job)
			r = error_set(&i->err, -ENOENT, "job %" PRIu64 ": %s", ids.ids[n],
				jobs_absence(&f->jobs, ids.ids[n]));
		else if (job_list_add(l, job) < 0)
			r = error_set(&i->err, -ENOMEM, "cannot print the jobs: out of memory");
	}
	id_list_finish(&ids);
	return r;
}

static int print(struct info *i, struct status_queue *q)
{
	struct status_output o = {0};
	int r = 0;
	text_append_string(&o.text, i->json ? "[" : "");
	if (i->json)
		r = status_put_json(&o, q, NULL);
	for (size_t n = 0; r == 0 && !i->json && n < q->jobs.count; n++) {
		text_append_string(&o.text, n ? "\n" : "");
		r = put_job(&o.text, q->verdicts, q->jobs.jobs[n]);
		status_flush(&o, STATUS_FLUSH_ABOVE);
	}
	text_append_string(&o.text, i->json ? "\n]\n" : "");
	status_flush(&o, 0);
	text_finish(&o.text);
	r = r < 0 ? r : o.error;
	return r < 0 ? error_set(&i->err, r, "cannot write the output: %s", error_words(r)) : 0;
}

static int info(struct info *i)
{
	struct follow f;
	i->queue.shows = true;
	int r = queue_choice_resolve(&i->queue, &i->err);
	if (r == 0)
		r = queue_choice_follow(&i->queue, false, &f, &i->err);
	if (r < 0)
		return r;
	struct status_queue q = {.follow = &f};
	r = choose(i, &f, &q.jobs);
	if (r == 0)
		r = verdicts_open(&f, NULL, NULL, VERDICTS_QUICK, &q.verdicts, &i->err);
	if (r == 0)
		r = print(i, &q);
	verdicts_close(q.verdicts);
	job_list_finish(&q.jobs);
	follow_close(&f);
	return r;
}

static int main_info(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "ID…", "Print all details of jobs.", children, NULL, NULL};
	struct info i = {0};
	command_parse(&argp, argc, argv, &i);
	int r = info(&i);
	int code = r < 0 ? command_fail(&i.err, r) : EXIT_DONE;
	job_selection_finish(&i.selection);
	queue_choice_finish(&i.queue);
	return code;
}

const struct command cmd_info = {"info", "Show the details of a job", main_info};
