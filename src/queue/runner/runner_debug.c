/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_debug.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/units.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/schedule/scheduler.h"

void runner_debug(struct runner *r, const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0};
	va_list args;
	if (!r->options.verbose)
		return;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	runner_say(r, "gpuq: debug: %s\n", text_string(&words));
}

void runner_debug_start(struct runner *r, const struct scheduler_start *start)
{
	cleanup_(text_finish) struct text t = {0};
	char size[UNITS_ROOM];
	size_t count;
	if (!r->options.verbose)
		return;
	const struct gd_gpu *const *gpus = scheduler_gpus(r->deciding.scheduler, &count);
	text_appendf(&t, "job %" PRIu64 " starts", start->job->id);
	for (size_t i = 0; i < start->num_gpus; i++) {
		const struct gd_gpu *gpu = gpus[start->gpus[i]];
		text_appendf(&t, "%s%d", i ? "," : start->num_gpus == 1 ? " on GPU " : " on GPUs ", gpu->index);
		if (gpu->known & GD_GPU_KNOWN_MEMORY_FREE)
			text_appendf(
				&t, " (%s free in the last sample)", units_format_size(gpu->memory_free_bytes, size));
	}
	if (start->num_gpus == 0)
		text_append_string(&t, " without a GPU");
	else if (start->need.memory_bytes)
		text_appendf(&t, ": needs %s%s", units_format_size(start->need.memory_bytes, size),
			start->need.declared ? "" : ", the default");
	if (start->need.alone)
		text_append_string(&t, ", shares with no job");
	runner_debug(r, "%s", text_string(&t));
}

/* Newlines become semicolons. */
static void join_lines(struct text *t)
{
	while (t->length && t->data[t->length - 1] == '\n')
		t->data[--t->length] = '\0';
	for (size_t i = 0; i < t->length; i++)
		if (t->data[i] == '\n')
			t->data[i] = ';';
}

static bool is_told(const struct runner_deciding *d, const struct told_reason *reason)
{
	for (size_t i = 0; i < RUNNER_TOLD_REASONS; i++)
		if (d->told[i].id == reason->id && d->told[i].hash == reason->hash)
			return true;
	return false;
}

static void tell_reason(struct runner *r, const struct job *job, struct told_reason *ret)
{
	struct scheduler *s = r->deciding.scheduler;
	cleanup_(text_finish) struct text brief = {0};
	cleanup_(text_finish) struct text lines = {0};
	struct scheduler_verdict v;
	if (scheduler_verdict(s, job, &v) < 0)
		return;
	scheduler_verdict_brief(&brief, s, &v);
	*ret = (struct told_reason){.id = job->id, .hash = hash_bytes(text_string(&brief), brief.length).a};
	if (is_told(&r->deciding, ret))
		return;
	scheduler_verdict_lines(&lines, s, &v, NULL, NULL);
	join_lines(&lines);
	runner_debug(r, "job %" PRIu64 " waits: %s%s%s", job->id, text_string(&brief), lines.length ? ": " : "",
		text_string(&lines));
}

void runner_debug_waiting(struct runner *r)
{
	const struct jobs *js = &r->following.jobs;
	struct told_reason now[RUNNER_TOLD_REASONS] = {{0}};
	size_t n = 0;
	if (!r->options.verbose)
		return;
	for (size_t i = 0; i < js->count && n < RUNNER_TOLD_REASONS; i++)
		if (js->by_id[i]->state == JOB_PENDING && !js->by_id[i]->running)
			tell_reason(r, js->by_id[i], &now[n++]);
	memcpy(r->deciding.told, now, sizeof(now));
}
