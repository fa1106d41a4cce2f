/* SPDX-License-Identifier: MIT */
#include "view/report/report_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "view/report/report.h"
#include "view/report/report_axis.h"

#define LONGEST   20
#define MAX_GPUS  4096 /* as many as a cluster may have */
#define MAX_LANES 16

bool report_is_recent(const struct view_job *job, int64_t since_ms)
{
	const struct view_attempt *a = view_job_last(job);
	bool over = job->state >= VIEW_JOB_COMPLETED;
	return !over || job->submit_ms >= since_ms || (a && a->end_ms >= since_ms);
}

static int64_t end_of(const struct report_facts *f, const struct view_attempt *a)
{
	int64_t end = a->end_ms;
	/* The journal may lack the end of an attempt: unless it runs, its duration counts as 0. */
	if (end < 0)
		end = a->state == VIEW_JOB_RUNNING ? f->now_ms : a->start_ms;
	return end < a->start_ms ? a->start_ms : end;
}

/* The span of an attempt. */
static struct report_span span_of(const struct report_facts *f, const struct view_job *j, const struct view_attempt *a)
{
	struct report_span s = {.start_ms = a->start_ms, .end_ms = end_of(f, a), .job = j, .attempt = a};
	return s;
}

typedef int attempt_fn(struct report_facts *f, const struct view_job *j, const struct view_attempt *a);

static int each_attempt(struct report_facts *f, const struct view_model *m, int64_t since_ms, attempt_fn *fn)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < view_num_jobs(m); i++) {
		const struct view_job *j = view_job(m, i);
		for (size_t k = 0; r == 0 && k < j->num_attempts; k++)
			if (end_of(f, &j->attempts[k]) >= since_ms)
				r = fn(f, j, &j->attempts[k]);
	}
	return r;
}

/* ---- First pass: counting --------------------------------------------------- */

static int by_gpu(const void *a, const void *b)
{
	const struct report_gpu *x = a, *y = b;
	/* Jobs without a GPU come last. */
	int last = (x->id == REPORT_NO_GPU) - (y->id == REPORT_NO_GPU);
	return last ? last : (x->id > y->id) - (x->id < y->id);
}

/* NULL: the GPU is not shown. */
static struct report_gpu *find_gpu(const struct report_facts *f, int id)
{
	const struct report_gpu key = {.id = id};
	return f->num_gpus ? bsearch(&key, f->gpus, f->num_gpus, sizeof(key), by_gpu) : NULL;
}

/* Keeps the order. A journal of another user can have any number of GPUs. */
static int add_gpu(struct report_facts *f, int id)
{
	const struct report_gpu gpu = {.id = id, .peak_mem_mb = -1, .memory_total_mb = -1, .mean_util = -1};
	if (find_gpu(f, id) || f->num_gpus == MAX_GPUS)
		return 0;
	if (array_reserve(f->gpus, &f->gpus_capacity, f->num_gpus + 1) < 0)
		return -ENOMEM;
	size_t at = array_lower_bound(&gpu, f->gpus, f->num_gpus, sizeof(gpu), by_gpu);
	memmove(f->gpus + at + 1, f->gpus + at, (f->num_gpus - at) * sizeof(gpu));
	f->gpus[at] = gpu;
	f->num_gpus++;
	return 0;
}

static int count_span(struct report_facts *f, int id)
{
	int r = add_gpu(f, id);
	struct report_gpu *g = r == 0 ? find_gpu(f, id) : NULL;
	if (g)
		g->num_spans++;
	return r;
}

static int count_attempt(struct report_facts *f, const struct view_job *j, const struct view_attempt *a)
{
	int r = a->num_gpus == 0 ? count_span(f, REPORT_NO_GPU) : 0;
	(void)j;
	for (size_t i = 0; r == 0 && i < a->num_gpus; i++)
		r = count_span(f, a->gpus[i]);
	if (r < 0)
		return r;
	int64_t end = end_of(f, a);
	f->from_ms = f->num_attempts == 0 || a->start_ms < f->from_ms ? a->start_ms : f->from_ms;
	f->to_ms = f->num_attempts == 0 || end > f->to_ms ? end : f->to_ms;
	f->num_attempts++;
	return 0;
}

static int count(struct report_facts *f, const struct view_model *m, int64_t since_ms)
{
	int64_t first_submit = f->now_ms;
	for (size_t i = 0; i < view_num_jobs(m); i++) {
		const struct view_job *j = view_job(m, i);
		if (!report_is_recent(j, since_ms))
			continue;
		f->num_jobs++;
		f->counts[j->state]++;
		first_submit = j->submit_ms < first_submit ? j->submit_ms : first_submit;
	}
	int r = 0;
	for (size_t i = 0; r == 0 && i < view_num_gpus(m); i++)
		r = add_gpu(f, view_gpu(m, i)->id);
	if (r == 0)
		r = each_attempt(f, m, since_ms, count_attempt);
	if (r < 0)
		return r;
	if (f->num_attempts == 0) {
		f->from_ms = first_submit;
		f->to_ms = f->now_ms;
	}
	f->from_ms = f->from_ms < since_ms ? since_ms : f->from_ms;
	f->to_ms = f->to_ms < f->from_ms + 1000 ? f->from_ms + 1000 : f->to_ms;
	return 0;
}

/* ---- Second pass: the spans -------------------------------------------------- */

/* One more of each than needed: an empty allocation could return NULL. */
static int reserve(struct report_facts *f)
{
	for (size_t i = 0; i < f->num_gpus; i++) {
		f->gpus[i].spans = arena_alloc(&f->arena, (f->gpus[i].num_spans + 1) * sizeof(struct report_span));
		if (!f->gpus[i].spans)
			return -ENOMEM;
		f->gpus[i].num_spans = 0;
	}
	f->ends = arena_alloc(&f->arena, (f->num_attempts + 1) * sizeof(*f->ends));
	f->longest = arena_alloc(&f->arena, (f->num_attempts + 1) * sizeof(*f->longest));
	f->measured = arena_alloc(&f->arena, (f->num_attempts + 1) * sizeof(*f->measured));
	f->idle = arena_alloc(&f->arena, (f->num_attempts + 1) * sizeof(*f->idle));
	f->failed = arena_alloc(&f->arena, (f->counts[VIEW_JOB_FAILED] + 1) * sizeof(*f->failed));
	return f->ends && f->longest && f->measured && f->idle && f->failed ? 0 : -ENOMEM;
}

static void put_span(struct report_facts *f, int id, struct report_span s)
{
	const struct view_attempt *a = s.attempt;
	struct report_gpu *g = find_gpu(f, id);
	if (!g)
		return;
	g->spans[g->num_spans++] = s;
	g->num_failed += a->state == VIEW_JOB_FAILED;
	g->peak_mem_mb = a->peak_mem_mb > g->peak_mem_mb ? a->peak_mem_mb : g->peak_mem_mb;
}

static int put_attempt(struct report_facts *f, const struct view_job *j, const struct view_attempt *a)
{
	struct report_span s = span_of(f, j, a), cut = s;
	cut.start_ms = s.start_ms < f->from_ms ? f->from_ms : s.start_ms;
	for (size_t i = 0; i < a->num_gpus; i++)
		put_span(f, a->gpus[i], cut);
	if (a->num_gpus == 0)
		put_span(f, REPORT_NO_GPU, cut);
	f->longest[f->num_longest++] = s;
	if (a->idle_ms > 0)
		f->idle[f->num_idle++] = s;
	if (a->energy_j >= 0)
		f->measured[f->num_measured++] = s;
	if (a->state != VIEW_JOB_RUNNING)
		f->ends[f->num_ends++] = s;
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;
	return (x->end_ms > y->end_ms) - (x->end_ms < y->end_ms);
}

static int by_start(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;
	int first = (x->start_ms > y->start_ms) - (x->start_ms < y->start_ms);
	return first ? first : by_end(a, b);
}

static int64_t length(const struct report_span *s)
{
	return s->attempt->duration_ms >= 0 ? s->attempt->duration_ms : s->end_ms - s->start_ms;
}

static int by_length(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;
	int64_t p = length(x), q = length(y);
	return p != q ? (p < q) - (p > q) : (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/*
 * Uses the first lane that is free, or will be within less than a pixel; the last lane takes the spans that fit in
 * none.
 */
static void assign_lanes(struct report_gpu *g, int64_t span_ms)
{
	int64_t unseen_ms = span_ms * REPORT_PIXEL / REPORT_WIDTH;
	int64_t free_at[MAX_LANES] = {0};
	int64_t covered = INT64_MIN;
	for (size_t i = 0; i < g->num_spans; i++) {
		struct report_span *s = &g->spans[i];
		unsigned lane = 0;
		while (lane < g->num_lanes && free_at[lane] > s->start_ms + unseen_ms)
			lane++;
		if (lane == MAX_LANES)
			lane--;
		else if (lane == g->num_lanes)
			g->num_lanes++;
		s->lane = lane;
		if (s->end_ms > free_at[lane])
			free_at[lane] = s->end_ms;
		int64_t from = s->start_ms > covered ? s->start_ms : covered;
		if (s->end_ms > from)
			g->busy_ms += s->end_ms - from;
		covered = s->end_ms > covered ? s->end_ms : covered;
	}
}

static void collect_failed(struct report_facts *f, const struct view_model *m, int64_t since_ms)
{
	for (size_t i = view_num_jobs(m); i-- > 0;) {
		const struct view_job *j = view_job(m, i);
		if (j->state == VIEW_JOB_FAILED && report_is_recent(j, since_ms))
			f->failed[f->num_failed++] = j;
	}
}

static void order(struct report_facts *f)
{
	for (size_t i = 0; i < f->num_gpus; i++) {
		struct report_gpu *g = &f->gpus[i];
		qsort(g->spans, g->num_spans, sizeof(*g->spans), by_start);
		assign_lanes(g, f->to_ms - f->from_ms);
		if (g->id == REPORT_NO_GPU)
			continue;
		f->busy_ms += g->busy_ms;
		f->gpu_ms += f->to_ms - f->from_ms;
	}
	qsort(f->ends, f->num_ends, sizeof(*f->ends), by_end);
	qsort(f->longest, f->num_longest, sizeof(*f->longest), by_length);
	f->num_longest = f->num_longest < LONGEST ? f->num_longest : LONGEST;
	report_cost_order(f);
}

/* ---- Samples of the GPUs ------------------------------------------------------ */

static void sum_up_samples(struct report_gpu *g)
{
	int64_t sum = 0, known = 0;
	for (size_t i = 0; i < g->num_samples; i++) {
		const struct view_sample *s = &g->samples[i];
		if (s->utilization_percent >= 0) {
			sum += s->utilization_percent;
			known++;
		}
		int64_t used_mb = s->memory_used_bytes >= 0 ? s->memory_used_bytes >> 20 : -1;
		g->peak_mem_mb = used_mb > g->peak_mem_mb ? used_mb : g->peak_mem_mb;
	}
	g->mean_util = known ? (int)((sum + known / 2) / known) : -1;
}

static int take_samples(struct report_facts *f, const struct view_model *m, struct report_gpu *g)
{
	struct view_sample *all = malloc(REPORT_HISTORY * sizeof(*all));
	if (!all)
		return -ENOMEM;
	size_t n = view_history(m, g->id, all, REPORT_HISTORY), first = 0;
	while (first < n && all[first].time_ms < f->from_ms)
		first++;
	while (n > first && all[n - 1].time_ms > f->to_ms)
		n--;
	g->samples = arena_alloc(&f->arena, (n - first + 1) * sizeof(*all));
	if (g->samples) {
		g->num_samples = n - first;
		memcpy(g->samples, all + first, (n - first) * sizeof(*all));
		sum_up_samples(g);
	}
	free(all);
	return g->samples ? 0 : -ENOMEM;
}

static int look_at_gpus(struct report_facts *f, const struct view_model *m)
{
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		const struct view_gpu *v = view_gpu(m, i);
		struct report_gpu *g = find_gpu(f, v->id);
		if (!g)
			continue;
		g->name = v->name;
		if (v->memory_total_bytes >= 0)
			g->memory_total_mb = v->memory_total_bytes >> 20;
	}
	int r = 0;
	for (size_t i = 0; r == 0 && i < f->num_gpus; i++)
		if (f->gpus[i].id != REPORT_NO_GPU)
			r = take_samples(f, m, &f->gpus[i]);
	return r;
}

int report_facts_init(struct report_facts *f, const struct view_model *m, int64_t since_ms, int64_t now_ms)
{
	*f = (struct report_facts){.now_ms = now_ms};
	int r = count(f, m, since_ms);
	if (r == 0)
		r = reserve(f);
	if (r == 0)
		r = each_attempt(f, m, since_ms, put_attempt);
	if (r == 0) {
		collect_failed(f, m, since_ms);
		order(f);
		r = look_at_gpus(f, m);
	}
	if (r == 0)
		r = report_facts_waiting(f, m, since_ms);
	if (r < 0)
		report_facts_finish(f);
	return r;
}

void report_facts_finish(struct report_facts *f)
{
	arena_finish(&f->arena);
	free(f->gpus);
	*f = (struct report_facts){0};
}
