/* SPDX-License-Identifier: MIT */
#include "queue/journal/job_line.h"

#include <string.h>

#include "base/date.h"
#include "base/display.h"
#include "base/signals.h"
#include "base/units.h"

#define LONGEST_COMMAND 60

#define LOOK(mark, word)                                                                                               \
	{                                                                                                              \
		mark, word, sizeof(mark) - 1, sizeof(word) - 1                                                         \
	}

static const struct {
	const char *mark, *word;
	size_t mark_size, word_size;
} looks[JOB_STATES] = {
	[JOB_PENDING] = LOOK("[ ]", "Pending"),
	[JOB_HELD] = LOOK("[‖]", "Held"),
	[JOB_RUNNING] = LOOK("[→]", "Running"),
	[JOB_COMPLETED] = LOOK("[✓]", "Completed"),
	[JOB_FAILED] = LOOK("[!]", "Failed"),
	[JOB_CANCELLED] = LOOK("[x]", "Cancelled"),
	[JOB_UNKNOWN] = LOOK("[?]", "Unknown"),
};

/* Right-aligned. Not printf(), which is slow: a list of 100,000 jobs is mostly numbers. */
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

static void write_idle(struct text *t, const struct job_attempt *a)
{
	char words[UNITS_ROOM];
	int64_t ms = date_now_ms() - a->idle->since_ms;
	text_append_string(t, ", GPU ");
	for (size_t i = 0; i < a->idle->num_gpus; i++)
		text_appendf(t, "%s%d", i ? "," : "", a->idle->gpus[i]);
	text_appendf(t, " idle for %s", units_format_duration(ms > 0 ? (uint64_t)ms : 0, words));
}

static void write_outcome(struct text *t, const struct job *job, size_t reason_columns)
{
	const struct job_attempt *a = job->attempts;
	const char *reason = job_reason(job);
	text_append(t, looks[job->state].word, looks[job->state].word_size);
	if (job->state == JOB_RUNNING && a) {
		if (a->pid > 0)
			text_appendf(t, " (PID %d)", (int)a->pid);
		if (job->stuck)
			text_append_string(t, ", " REASON_STUCK);
		else if (job->cancel_requested)
			text_append_string(t, ", being cancelled");
		else if (job->paused)
			text_append_string(t, ", paused");
		else if (job_attempt_is_idle(a))
			write_idle(t, a);
	} else if (job->state == JOB_FAILED && reason) {
		text_append_string(t, " (");
		display_append(t, reason, strlen(reason), reason_columns);
		text_append_char(t, ')');
	} else if (job->state == JOB_FAILED && a && a->signal) {
		text_appendf(t, " (%s)", signal_name(a->signal));
	} else if (job->state == JOB_FAILED && a && a->exit_code >= 0) {
		text_appendf(t, " (exit %d)", a->exit_code);
	} else if (job->state == JOB_PENDING && job->num_attempts > job->spared) {
		text_appendf(t, " (attempt %u)", job->num_attempts + 1);
	}
}

void job_line_write_outcome(struct text *t, const struct job *job)
{
	write_outcome(t, job, DISPLAY_ALL);
}

/* The node, for a job of a queue on a cluster. */
static void write_node(struct text *t, const struct job *job)
{
	if (!job->keeper || !job->keeper->is_pilot || !*job->keeper->machine.host)
		return;
	text_append_string(t, " on ");
	display_append(t, job->keeper->machine.host, strlen(job->keeper->machine.host), DISPLAY_ALL);
}

static void write_gpus(struct text *t, const struct job *job)
{
	const struct job_attempt *a = job->attempts;
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
	write_node(t, job);
}

static void write_elapsed(struct text *t, const struct job *job, int64_t now_ms)
{
	const struct job_attempt *a = job->attempts;
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

/* A long reason is cut, so that the duration after it is not. */
#define SHORTEST_REASON 8
static size_t reason_room(const struct job *job, const struct job_line_options *o, const char *before, size_t size)
{
	struct text elapsed = {0};
	if (!o->width || !o->command_width || !job_reason(job))
		return DISPLAY_ALL;
	write_elapsed(&elapsed, job, o->now_ms);
	size_t used = JOB_LINE_MARK_WIDTH + o->id_width + 1 + o->command_width + display_width(before, size) +
		      looks[job->state].word_size + strlen(" ()") +
		      display_width(text_string(&elapsed), elapsed.length);
	text_finish(&elapsed);
	return o->width > used + SHORTEST_REASON ? o->width - used : SHORTEST_REASON;
}

/* The part after the command. */
static void write_rest(struct text *t, const struct job *job, const struct job_line_options *o)
{
	size_t begin = t->length;
	text_append_string(t, " → ");
	write_gpus(t, job);
	text_append_string(t, " → ");
	write_outcome(t, job, reason_room(job, o, text_string(t) + begin, t->length - begin));
	write_elapsed(t, job, o->now_ms);
	if (o->note && job->state == JOB_PENDING) {
		text_append_string(t, "  ");
		text_append_string(t, o->note);
	}
	if (o->name_width && job->name) {
		text_append_string(t, "  ");
		display_append(t, job->name, strlen(job->name), o->name_width);
	}
}

size_t job_line_rest_width(const struct job *job, const struct job_line_options *o)
{
	struct text rest = {0};
	write_rest(&rest, job, o);
	size_t width = display_width(text_string(&rest), rest.length);
	text_finish(&rest);
	return width;
}

const char *job_line_command(const struct job *job, struct text *scratch, size_t *ret_size)
{
	const struct job_wish *w = job->wish;
	const char *copy = w->script && w->script_name ? strstr(job->command, w->script) : NULL;
	text_clear(scratch);
	if (copy) {
		const char *rest = copy + strlen(w->script);
		text_append_string(scratch, w->script_name);
		/* A path with special characters is quoted: skip the closing quotation mark. */
		text_append_string(scratch, rest + (*rest == '\''));
	}
	bool shown = copy && !text_error(scratch);
	*ret_size = shown ? scratch->length : job->command_size;
	return shown ? text_string(scratch) : job->command;
}

/* Shows where commands with the same beginning differ: "python tra… --seed 7". */
static void write_command(struct text *t, const char *command, size_t size, const struct job_line_options *o)
{
	if (!o->width) {
		display_pad(t, display_append(t, command, size, DISPLAY_ALL), o->command_width);
		return;
	}
	size_t width = display_width(command, size), from = o->keep_from;
	if (width <= o->command_width || from == 0 || from >= size) {
		display_append_padded(t, command, size, o->command_width);
		return;
	}
	size_t tail = display_width(command + from, size - from);
	size_t head = o->command_width / 3;
	if (tail < o->command_width - head)
		head = o->command_width - tail;
	size_t used = display_append(t, command, from, head);
	display_append_padded(t, command + from, size - from, o->command_width - used);
}

static void write_plain(struct text *t, const struct job *job, const struct job_line_options *o)
{
	text_append(t, looks[job->state].mark, looks[job->state].mark_size);
	if (o->id_width) {
		text_append_char(t, ' ');
		put_number(t, job->id, o->id_width);
	}
	text_append_char(t, ' ');
	struct text scratch = {0};
	size_t size;
	const char *command = job_line_command(job, &scratch, &size);
	if (o->command_width)
		write_command(t, command, size, o);
	else
		display_append(t, command, size, LONGEST_COMMAND);
	text_finish(&scratch);
	write_rest(t, job, o);
}

void job_line_write(struct text *t, const struct job *job, const struct job_line_options *o)
{
	const char *color = o->color ? o->color(job->state) : "";
	text_append_string(t, color);
	if (o->width) {
		struct text line = {0};
		write_plain(&line, job, o);
		display_append(t, text_string(&line), line.length, o->width);
		text_finish(&line);
	} else {
		write_plain(t, job, o);
	}
	if (*color)
		text_append_string(t, "\033[0m");
}
