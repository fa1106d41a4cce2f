/* SPDX-License-Identifier: MIT */
#include "queue/journal/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "base/display.h"
#include "base/json_put.h"
#include "base/signals.h"
#include "base/units.h"

#define LONGEST_COMMAND 60

static const struct {
	const char *mark, *word, *colour;
} looks[JOB_STATES] = {
	[JOB_PENDING] = {"[ ]", "Pending", ""},
	[JOB_HELD] = {"[‖]", "Held", "\033[33m"},
	[JOB_RUNNING] = {"[→]", "Running", "\033[36m"},
	[JOB_COMPLETED] = {"[✓]", "Completed", "\033[32m"},
	[JOB_FAILED] = {"[!]", "Failed", "\033[31m"},
	[JOB_CANCELLED] = {"[x]", "Cancelled", "\033[33m"},
};

/* Right-aligned: a list of 100,000 jobs is mostly numbers, and printf() takes its time. */
static void put_number(struct text *t, uint64_t n, size_t width)
{
	char digits[64];
	size_t at = sizeof(digits);
	do
		digits[--at] = (char)('0' + n % 10);
	while ((n /= 10) > 0 && at > 0);
	while (sizeof(digits) - at < width && at > 0)
		digits[--at] = ' ';
	text_append(t, digits + at, sizeof(digits) - at);
}

static const struct job_attempt *last(const struct job *job)
{
	return job->attempts;
}

/* Its reason if it never ran, else that of its last attempt. */
static const char *reason_of(const struct job *job)
{
	if (job->state == JOB_RUNNING)
		return job->stuck ? REASON_STUCK : NULL;
	return job->reason ? job->reason : last(job) && job_is_final(job) ? last(job)->reason : NULL;
}

void show_outcome(struct text *t, const struct job *job)
{
	const struct job_attempt *a = last(job);
	const char *reason = reason_of(job);
	text_append_string(t, looks[job->state].word);
	if (job->state == JOB_RUNNING && a) {
		text_appendf(t, " (PID %d)", (int)a->pid);
		if (job->stuck)
			text_append_string(t, ", " REASON_STUCK);
		else if (job->cancel_requested)
			text_append_string(t, ", being cancelled");
	} else if (job->state == JOB_FAILED && reason) {
		text_append_string(t, " (");
		display_append(t, reason, strlen(reason), DISPLAY_ALL);
		text_append_char(t, ')');
	} else if (job->state == JOB_FAILED && a && a->signal) {
		text_appendf(t, " (%s)", signal_name(a->signal));
	} else if (job->state == JOB_FAILED && a && a->exit_code >= 0) {
		text_appendf(t, " (exit %d)", a->exit_code);
	} else if (job->state == JOB_PENDING && job->num_attempts > job->spared) {
		text_appendf(t, " (attempt %u)", job->num_attempts + 1);
	}
}

static void show_gpus(struct text *t, const struct job *job)
{
	const struct job_attempt *a = last(job);
	if (!a || a->num_gpus == 0 || job->state == JOB_PENDING || job->state == JOB_HELD) {
		text_append_string(t, "GPU N/A");
		return;
	}
	text_append_string(t, "GPU ");
	for (int i = 0; i < a->num_gpus; i++) {
		if (i)
			text_append_char(t, ',');
		put_number(t, (uint64_t)a->gpus[i], 1);
	}
}

static void show_elapsed(struct text *t, const struct job *job, int64_t now_ms)
{
	const struct job_attempt *a = last(job);
	char buf[UNITS_ROOM];
	int64_t ms = -1;
	if (a && job->state == JOB_RUNNING && now_ms && a->start_ms)
		ms = now_ms - a->start_ms;
	else if (a && job_is_final(job))
		ms = a->duration_ms;
	if (ms >= 0) {
		text_append(t, "  ", 2);
		text_append_string(t, units_format_duration((uint64_t)ms, buf));
	}
}

/* What stands after the command. */
static void show_rest(struct text *t, const struct job *job, const struct show_options *o)
{
	text_append_string(t, " → ");
	show_gpus(t, job);
	text_append_string(t, " → ");
	show_outcome(t, job);
	show_elapsed(t, job, o->now_ms);
	if (o->name_width && job->name) {
		text_append_string(t, "  ");
		display_append(t, job->name, strlen(job->name), o->name_width);
	}
}

size_t show_rest_width(const struct job *job, const struct show_options *o)
{
	struct text rest = {0};
	show_rest(&rest, job, o);
	size_t width = display_width(text_string(&rest), rest.length);
	text_finish(&rest);
	return width;
}

static void show_plain(struct text *t, const struct job *job, const struct show_options *o)
{
	text_append_string(t, looks[job->state].mark);
	if (o->id_width) {
		text_append_char(t, ' ');
		put_number(t, job->id, o->id_width);
	}
	text_append_char(t, ' ');
	if (o->command_width)
		display_append_padded(t, job->command, job->command_size, o->command_width);
	else
		display_append(t, job->command, job->command_size, LONGEST_COMMAND);
	show_rest(t, job, o);
}

void show_line(struct text *t, const struct job *job, const struct show_options *o)
{
	const char *colour = o->colour ? looks[job->state].colour : "";
	text_append_string(t, colour);
	if (o->width) {
		struct text line = {0};
		show_plain(&line, job, o);
		display_append(t, text_string(&line), line.length, o->width);
		text_finish(&line);
	} else {
		show_plain(t, job, o);
	}
	if (*colour)
		text_append_string(t, "\033[0m");
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void put_time(struct text *t, const char *key, int64_t ms)
{
	char date[DATE_TEXT];
	if (!ms) {
		json_put_null(t, key);
		return;
	}
	date_format(ms, date);
	json_put_string(t, key, date);
}

static void put_any(struct text *t, const char *key, const char *string)
{
	if (string)
		json_put_any(t, key, string, strlen(string));
	else
		json_put_null(t, key);
}

static void put_known(struct text *t, const char *key, int64_t n, bool known)
{
	if (known)
		json_put_int(t, key, n);
	else
		json_put_null(t, key);
}

static void put_attempt(struct text *t, const struct job_attempt *a, const char *reason)
{
	bool has_gpu = a && a->num_gpus > 0;
	put_known(t, "gpu_id", has_gpu ? a->gpus[0] : 0, has_gpu);
	json_open(t, "gpu_ids", '[');
	for (int i = 0; a && i < a->num_gpus; i++)
		json_put_int(t, NULL, a->gpus[i]);
	json_close(t, ']');
	put_known(t, "pid", a ? a->pid : 0, a && a->pid > 0);
	put_time(t, "start_time", a ? a->start_ms : 0);
	put_time(t, "end_time", a ? a->end_ms : 0);
	if (a && a->duration_ms >= 0)
		json_put_seconds(t, "duration", a->duration_ms);
	else
		json_put_null(t, "duration");
	put_known(t, "exit_code", a ? a->exit_code : 0, a && a->exit_code >= 0 && a->state != JOB_RUNNING);
	put_known(t, "signal", a ? a->signal : 0, a && a->signal);
	put_any(t, "reason", reason);
	put_any(t, "log_file", a ? a->log : NULL);
	put_known(t, "peak_mem_mb", a ? a->peak_mem_mb : 0, a && a->peak_mem_mb >= 0);
}

/* Oldest first; the list has the newest first. */
static void put_history(struct text *t, const struct job_attempt *a)
{
	if (!a)
		return;
	put_history(t, a->earlier);
	json_open(t, NULL, '{');
	json_put_int(t, "attempt", a->attempt);
	json_put_string(t, "status", job_state_name((enum job_state)a->state));
	put_attempt(t, a, a->reason);
	json_close(t, '}');
}

void show_json(struct text *t, const struct job *job)
{
	const struct job_attempt *a = last(job);
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)job->id);
	put_any(t, "name", job->name);
	json_put_any(t, "command", job->command, job->command_size);
	json_put_string(t, "status", job_state_name((enum job_state)job->state));
	put_any(t, "cwd", job->wish->cwd);
	put_time(t, "submit_time", job->submit_ms);
	put_attempt(t, job->state == JOB_PENDING || job->state == JOB_HELD ? NULL : a, reason_of(job));
	json_put_int(t, "attempts", job->num_attempts);
	json_put_int(t, "priority", job->priority);
	json_open(t, "after", '[');
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++)
		json_put_int(t, NULL, (int64_t)job->after[i]);
	json_close(t, ']');
	json_open(t, "history", '[');
	put_history(t, a);
	json_close(t, ']');
	json_close(t, '}');
}
