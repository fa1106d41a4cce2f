/* SPDX-License-Identifier: MIT */
#include "cli/job_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "view/model/palette.h"

#define WIDEST_COMMAND 40 /* without a terminal: longer commands are printed whole, without alignment */
#define WIDEST_NAME    20

int job_list_add(struct job_list *l, const struct job *job)
{
	if (array_reserve(l->jobs, &l->capacity, l->count + 1) < 0)
		return -ENOMEM;
	l->jobs[l->count++] = job;
	return 0;
}

void job_list_finish(struct job_list *l)
{
	free(l->jobs);
	*l = (struct job_list){0};
}

/* ---- Fitting the height of the terminal -------------------------------------------- */

enum part { PART_RUNS, PART_FAILED, PART_WAITS, PART_OVER };

static enum part part_of(const struct job *job)
{
	switch ((enum job_state)job->state) {
	case JOB_RUNNING:
		return PART_RUNS;
	case JOB_FAILED:
	case JOB_UNKNOWN:
		return PART_FAILED;
	case JOB_PENDING:
	case JOB_HELD:
		return PART_WAITS;
	case JOB_COMPLETED:
	case JOB_CANCELLED:
		break;
	}
	return PART_OVER;
}

static size_t count_part(const struct job_list *l, enum part part)
{
	size_t n = 0;
	for (size_t i = 0; i < l->count; i++)
		n += part_of(l->jobs[i]) == part;
	return n;
}

/* Appends the first or last `most` jobs of a part, in the order of the list. */
static void take_part(const struct job_list *l, enum part part, bool from_end, size_t most, struct job_list *to)
{
	size_t all = count_part(l, part), skip = from_end && all > most ? all - most : 0, taken = 0;
	for (size_t i = 0; i < l->count && taken < most; i++) {
		if (part_of(l->jobs[i]) != part)
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		to->jobs[to->count++] = l->jobs[i];
		taken++;
	}
}

static size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

int job_list_fit(struct job_list *l, size_t most)
{
	size_t room = least_of(most, l->count);
	struct job_list fitting = {.jobs = calloc(room + 1, sizeof(*l->jobs)), .capacity = room + 1};
	if (!fitting.jobs)
		return -ENOMEM;
	size_t waits = count_part(l, PART_WAITS), over = count_part(l, PART_OVER);
	take_part(l, PART_RUNS, false, room, &fitting);
	size_t left = room - fitting.count;
	/* Old failures must not fill the screen. */
	take_part(l, PART_FAILED, true, left - least_of(waits + over, left / 2), &fitting);
	left = room - fitting.count;
	take_part(l, PART_WAITS, false, over < left / 2 ? left - over : left - left / 2, &fitting);
	take_part(l, PART_OVER, true, room - fitting.count, &fitting);
	job_list_finish(l);
	*l = fitting;
	return 0;
}

/* ---- Fitting its width --------------------------------------------------------------- */

static void measure_commands(const struct job_list *l, struct job_line_options *o)
{
	cleanup_(text_finish) struct text scratch = {0};
	size_t widest = o->width ? o->width : WIDEST_COMMAND;
	for (size_t i = 0; i < l->count; i++) {
		const struct job *job = l->jobs[i];
		size_t size;
		const char *command = job_line_command(job, &scratch, &size);
		/* An upper bound is good enough; the exact width costs a pass over each command. */
		size_t width = size > widest ? widest : display_width(command, size);
		o->command_width = width > o->command_width ? width : o->command_width;
		if (job->name)
			o->name_width = WIDEST_NAME;
	}
}

void job_list_measure(const struct job_list *l, uint64_t last_id, struct job_line_options *o)
{
	size_t rest = 0;
	for (o->id_width = 1; last_id >= 10; last_id /= 10)
		o->id_width++;
	o->command_width = 1;
	measure_commands(l, o);
	for (size_t i = 0; o->width && i < l->count; i++) {
		size_t width = job_line_rest_width(l->jobs[i], o);
		rest = width > rest ? width : rest;
	}
	if (!o->width)
		return;
	/* The text after the command gets its space, but not all of it: a reason may be long. */
	size_t fixed = JOB_LINE_MARK_WIDTH + o->id_width + 1, least = o->width / 3;
	size_t room = o->width > fixed + rest + least ? o->width - fixed - rest : least;
	if (o->command_width > room)
		o->command_width = room > 0 ? room : 1;
}

static size_t common_prefix(const struct job *a, const struct job *b)
{
	size_t most = a->command_size < b->command_size ? a->command_size : b->command_size, n = 0;
	while (n < most && a->command[n] == b->command[n])
		n++;
	return n;
}

size_t job_list_difference(const struct job_list *l, size_t index, size_t columns)
{
	const struct job *job = l->jobs[index];
	if (job->wish->script_name)
		return 0; /* names of scripts are short */
	size_t before = index > 0 ? common_prefix(job, l->jobs[index - 1]) : 0;
	size_t after = index + 1 < l->count ? common_prefix(job, l->jobs[index + 1]) : 0;
	size_t at = before > after ? before : after;
	/* Nothing to do if the commands are equal, or if their difference is visible anyway. */
	if (at >= job->command_size || job->command_size <= columns || at + columns / 4 < columns)
		return 0;
	return display_word_start(job->command, at);
}

const char *job_list_color(enum job_state state)
{
	/* The states of both enums have equal values: see queue_view_jobs.c. */
	return palette_escape(palette_of_job((enum view_job_state)state));
}
