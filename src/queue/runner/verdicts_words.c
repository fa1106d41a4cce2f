/* SPDX-License-Identifier: MIT */
/* Verdicts as text: for a line of a list, and for `gpuq why`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/units.h"
#include "queue/journal/job_line.h"
#include "queue/runner/verdicts_private.h"
#include "queue/schedule/process_owner.h"

/* Texts are cached for this many classes of needs. */
#define MOST_BRIEFS 4096

/* How long CPUs and main memory stay in use is not estimated. */
static bool needs_machine(const struct job *job)
{
	return job->wish->num_gpus == 0 || job->wish->cpus > 0 || job->wish->host_mem_mb > 0;
}

/* The first jobs in the order that can start as soon as GPUs are free. */
static int make_forecast(struct verdicts *v)
{
	struct forecast_job waiting[EXPECTED_START_MAX];
	struct scheduler_verdict verdict;
	size_t n = 0, num_gpus;
	for (size_t i = 0; i < v->num_pending && n < EXPECTED_START_MAX; i++) {
		int r = verdicts_get(v, v->order[i], &verdict);
		if (r < 0)
			return r;
		if (verdict.answer == SCHEDULER_STARTS)
			waiting[n++] = (struct forecast_job){.job = v->order[i]};
		else if (verdict.answer == SCHEDULER_WAITS)
			waiting[n++] = (struct forecast_job){.job = v->order[i],
				.waits = true,
				.blocked = (unsigned)(verdict.num_gpus - verdict.num_within_reach)};
	}
	(void)scheduler_gpus(v->scheduler, &num_gpus);
	return forecast_create(&v->follow->jobs, waiting, n, (unsigned)num_gpus, date_now_ms(), &v->forecast);
}

int verdicts_expected(struct verdicts *v, const struct job *job, struct expected_start *ret)
{
	*ret = (struct expected_start){0};
	if (job->state != JOB_PENDING || v->source != SOURCE_RUNNER || v->published.pause[0])
		return 0;
	int r = v->forecast ? 0 : make_forecast(v);
	if (r == 0 && !needs_machine(job))
		*ret = forecast_get(v->forecast, job);
	return r;
}

static int say_expected(struct verdicts *v, const struct job *job, struct text *t)
{
	struct expected_start e;
	char low[UNITS_ROOM], median[UNITS_ROOM], high[UNITS_ROOM];
	int r = verdicts_expected(v, job, &e);
	if (r < 0)
		return r;
	if (e.known)
		text_appendf(t, "expected to start in %s%s (%s to %s)\n", e.at_most ? "at most " : "about ",
			units_format_duration((uint64_t)e.median_ms, median),
			units_format_duration((uint64_t)e.low_ms, low),
			units_format_duration((uint64_t)e.high_ms, high));
	else if (e.blocked)
		return 0;
	else if (needs_machine(job))
		text_append_string(t, "expected start: not estimated for jobs that request CPUs or main memory\n");
	else
		text_append_string(t, "expected start: unknown; there is no data about similar jobs\n");
	return 0;
}

/* The first dependency that is not completed (or, if that is enough, has not ended); NULL: none. */
static const struct job *waits_for(const struct jobs *js, const struct job *job)
{
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		const struct job *dep = jobs_find(js, job->after[i]);
		bool any = i > job->after[0] - job->num_after_any;
		if (dep && (any ? !job_is_final(dep) : dep->state != JOB_COMPLETED))
			return dep;
	}
	return NULL;
}

/* All waiting jobs of a class get the same text, except a job for which GPUs are reserved. */
static bool has_class(const struct verdicts *v, const struct job *job)
{
	const struct placement_reservation *r = scheduler_reservation(v->scheduler);
	return job->wait.position && !scheduler_is_late(v->scheduler, job) && r->job != job->id &&
	       r->host_job != job->id && job->wait.class_number < MOST_BRIEFS;
}

static void remember_brief(struct verdicts *v, const struct job *job, const char *words)
{
	size_t number = job->wait.class_number;
	if (!v->briefs)
		v->briefs = calloc(MOST_BRIEFS, sizeof(*v->briefs));
	if (!v->briefs)
		return;
	v->num_briefs = MOST_BRIEFS;
	if (!v->briefs[number])
		v->briefs[number] = strdup(words);
}

static int brief(struct verdicts *v, const struct job *job, struct text *t)
{
	struct scheduler_verdict verdict;
	bool has = has_class(v, job);
	if (has && v->briefs && v->briefs[job->wait.class_number]) {
		text_append_string(t, v->briefs[job->wait.class_number]);
		return 0;
	}
	int r = verdicts_get(v, job, &verdict);
	if (r < 0)
		return r;
	size_t before = t->length;
	scheduler_verdict_brief(t, v->scheduler, &verdict);
	if (has && !text_error(t))
		remember_brief(v, job, text_string(t) + before);
	return 0;
}

static int brief_of_last(struct verdicts *v, const struct job *job, struct text *t)
{
	size_t before = t->length;
	int r = brief(v, job, t);
	if (t->length == before)
		text_append_string(t, "no runner is active");
	return r;
}

int verdicts_obstacle(struct verdicts *v, const struct job *job, struct text *t, const struct job **ret_job)
{
	struct scheduler_verdict verdict;
	const struct job *dep;
	/* Jobs wait only for jobs that were added before them. */
	while (job->state == JOB_PENDING && (dep = waits_for(&v->follow->jobs, job)) && dep->id < job->id)
		job = dep;
	*ret_job = job;
	if (job->state == JOB_HELD) {
		text_appendf(t, "is held; 'gpuq release %" PRIu64 "' releases it", job->id);
		return 0;
	}
	/* The next runner may have other GPUs: report this only for a job that the last runner has seen. */
	if (v->source == SOURCE_LAST && job->submit_ms > v->published.written_ms)
		return 0;
	int r = verdicts_get(v, job, &verdict);
	if (r == 0 && verdict.answer == SCHEDULER_NEVER)
		scheduler_verdict_brief(t, v->scheduler, &verdict);
	return r;
}

const char *verdicts_pause(const struct verdicts *v)
{
	return v->source == SOURCE_RUNNER && v->published.pause[0] ? v->published.pause : NULL;
}

int verdicts_brief(struct verdicts *v, const struct job *job, struct text *t)
{
	if (job->state != JOB_PENDING)
		return 0;
	const struct job *dep = waits_for(&v->follow->jobs, job);
	if (dep) {
		text_appendf(t, "after job %" PRIu64, dep->id);
		return 0;
	}
	if (v->follow->jobs.paused)
		text_append_string(t, "the queue is paused");
	else if (v->source == SOURCE_NONE || v->source == SOURCE_CLUSTER)
		text_append_string(t, "no runner is active");
	else if (v->source == SOURCE_LAST)
		return brief_of_last(v, job, t);
	else if (v->source == SOURCE_ELSEWHERE)
		text_append_string(t, "its runner is on another machine");
	else if (v->source == SOURCE_HIDDEN)
		text_append_string(t, "only the owner of the queue can see why");
	else if (v->source == SOURCE_BEGINNING)
		text_append_string(t, "its runner is starting");
	else if (v->published.pause[0])
		text_append_string(t, "the runner starts no new jobs");
	else
		return brief(v, job, t);
	return 0;
}

static void say_source(const struct verdicts *v, const struct scheduler_verdict *verdict, struct text *t)
{
	switch (v->source) {
	case SOURCE_RUNNER:
		if (v->published.pause[0])
			text_appendf(t, "%s\n", v->published.pause);
		break;
	case SOURCE_BEGINNING:
		text_append_string(t, "its runner is starting; try again\n");
		break;
	case SOURCE_ELSEWHERE:
		text_append_string(t, "its runner is on another machine; run 'gpuq why' there\n");
		break;
	case SOURCE_HIDDEN:
		text_append_string(t,
			"only the owner of the queue can see whether a runner is active, and what the job waits for\n");
		break;
	case SOURCE_CLUSTER:
		text_append_string(
			t, "no runner is active; the queue was last run on a cluster: use 'gpuq run --slurm' again\n");
		break;
	case SOURCE_SELF:
	case SOURCE_LAST:
	case SOURCE_NONE:
		if (v->follow->jobs.paused)
			text_append_string(t, "the queue is paused; 'gpuq resume' continues it\n");
		/* A runner that could not start the job would not help. */
		text_appendf(t, "no runner is active%s\n",
			verdict->answer == SCHEDULER_NEVER ? "" : "; start one with 'gpuq run'");
		break;
	}
}

static int explain(struct verdicts *v, const struct job *job, struct text *t, struct gd_error *err)
{
	struct scheduler_verdict verdict;
	text_appendf(t, "job %" PRIu64 ": ", job->id);
	job_line_write_outcome(t, job);
	text_append_char(t, '\n');
	if (job->state == JOB_HELD)
		text_appendf(t, "it is held; 'gpuq release %" PRIu64 "' releases it\n", job->id);
	if (job->state == JOB_UNKNOWN)
		text_appendf(t,
			"a record of it was lost, so it may have run; 'gpuq retry %" PRIu64
			"' runs it again, 'gpuq cancel %" PRIu64 "' cancels it\n",
			job->id, job->id);
	if (job->state != JOB_PENDING)
		return 0;
	text_appendf(t, "position %zu of %zu\n", verdicts_position(v, job), v->num_pending);
	const struct job *dep = waits_for(&v->follow->jobs, job);
	int r = verdicts_get(v, dep ? dep : job, &verdict);
	if (r < 0)
		return error_set(err, r, "cannot read the queue: %s", error_words(r));
	say_source(v, &verdict, t);
	if (dep) {
		text_appendf(t, "waits for job %" PRIu64 ", which is %s", dep->id,
			job_state_name((enum job_state)dep->state));
		if (verdict.answer == SCHEDULER_NEVER) {
			text_append_string(t, " and ");
			scheduler_verdict_brief(t, v->scheduler, &verdict);
		}
		text_append_char(t, '\n');
		return 0;
	}
	scheduler_verdict_lines(t, v->scheduler, &verdict, process_owner_describe, NULL);
	if (v->source == SOURCE_RUNNER && v->published.note[0] &&
		(verdict.answer == SCHEDULER_WAITS || verdict.answer == SCHEDULER_NEVER))
		text_appendf(t, "%s\n", v->published.note);
	if (verdict.answer == SCHEDULER_WAITS && v->source == SOURCE_RUNNER)
		r = say_expected(v, job, t);
	return r < 0 ? error_set(err, r, "cannot read the queue: %s", error_words(r)) : 0;
}

/* The journal and the runner's file can be another user's, and the lines are shown on terminals. */
int verdicts_explain(struct verdicts *v, const struct job *job, struct text *t, struct gd_error *err)
{
	cleanup_(text_finish) struct text lines = {0};
	int r = explain(v, job, &lines, err);
	const char *p = text_string(&lines);
	for (size_t size; *p; p += size + (p[size] == '\n')) {
		size = strcspn(p, "\n");
		display_append(t, p, size, DISPLAY_ALL);
		text_append_char(t, '\n');
	}
	return r == 0 && text_error(&lines) ? error_set(err, -ENOMEM, "cannot read the queue: out of memory") : r;
}
