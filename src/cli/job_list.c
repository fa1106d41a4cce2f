/* SPDX-License-Identifier: MIT */
#include "cli/job_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"

#define WIDEST_COMMAND 40
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

/* ---- As high as the terminal ------------------------------------------------------- */

enum part { PART_RUNS, PART_WAITS, PART_OVER };

static enum part part_of(const struct job *job)
{
	return job->state == JOB_RUNNING ? PART_RUNS : job_is_final(job) ? PART_OVER : PART_WAITS;
}

/* Marks the first so many of a part, or the last. Returns how many there were. */
static size_t mark(const struct job_list *l, bool *kept, enum part part, bool from_end, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < l->count && n < most; i++) {
		size_t at = from_end ? l->count - 1 - i : i;
		if (part_of(l->jobs[at]) == part) {
			kept[at] = true;
			n++;
		}
	}
	return n;
}

static size_t count_part(const struct job_list *l, enum part part)
{
	size_t n = 0;
	for (size_t i = 0; i < l->count; i++)
		n += part_of(l->jobs[i]) == part;
	return n;
}

int job_list_fit(struct job_list *l, size_t most)
{
	if (l->count <= most)
		return 0;
	cleanup_(freep) bool *kept = calloc(l->count, sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	size_t left = most - mark(l, kept, PART_RUNS, false, most);
	size_t over = count_part(l, PART_OVER);
	left -= mark(l, kept, PART_WAITS, false, over < left / 2 ? left - over : left - left / 2);
	mark(l, kept, PART_OVER, true, left);
	size_t n = 0;
	for (size_t i = 0; i < l->count; i++)
		if (kept[i])
			l->jobs[n++] = l->jobs[i];
	l->count = n;
	return 0;
}

/* ---- As wide ------------------------------------------------------------------------- */

static void measure_commands(const struct job_list *l, struct job_line_options *o)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct job *job = l->jobs[i];
		/* An upper bound is good enough; the exact width costs a pass over each command. */
		size_t width = job->command_size > WIDEST_COMMAND ? WIDEST_COMMAND
								  : display_width(job->command, job->command_size);
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
	/* What stands behind the command gets its room, but not all of it: a reason may be long. */
	size_t fixed = JOB_LINE_MARK_WIDTH + o->id_width + 1, least = o->width / 3;
	size_t room = o->width > fixed + rest + least ? o->width - fixed - rest : least;
	if (o->command_width > room)
		o->command_width = room > 0 ? room : 1;
}
