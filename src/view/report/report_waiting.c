/* SPDX-License-Identifier: MIT */
/* What waiting cost: how long jobs waited and for what, and what stood idle meanwhile. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "view/report/report_facts.h"

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* The nearest rank, so that what is told has happened. */
static int64_t percentile(const int64_t *sorted, size_t count, unsigned percent)
{
	size_t rank = (count * percent + 99) / 100;
	return sorted[rank ? rank - 1 : 0];
}

struct report_times report_times_of(int64_t *values, size_t count)
{
	struct report_times t = {.count = count};
	if (count == 0)
		return t;
	qsort(values, count, sizeof(*values), by_value);
	for (size_t i = 0; i < count; i++)
		t.total_ms += values[i];
	t.median_ms = percentile(values, count, 50);
	t.p90_ms = percentile(values, count, 90);
	t.longest_ms = values[count - 1];
	return t;
}

/* From here on one more (or less) waits, or one GPU more is busy. */
struct change {
	int64_t time_ms;
	int waiting, busy;
};

struct waiting_sweep {
	struct change *changes;
	size_t num_changes;
	int64_t *values[REPORT_WAITS];
	size_t counts[REPORT_WAITS];
};

static void add_change(struct waiting_sweep *s, int64_t time_ms, int waiting, int busy)
{
	s->changes[s->num_changes++] = (struct change){time_ms, waiting, busy};
}

static void add_wait(struct waiting_sweep *s, enum report_wait kind, int64_t ms)
{
	s->values[kind][s->counts[kind]++] = ms > 0 ? ms : 0;
}

/* When the last of the jobs that it comes after was over; 0: it comes after none; -1: not all are. */
static int64_t released_ms(const struct view_model *m, const struct view_job *j)
{
	int64_t released = 0;
	for (size_t i = 0; i < j->num_after; i++) {
		const struct view_job *before = view_find_job(m, j->after[i]);
		const struct view_attempt *a = before ? view_job_last(before) : NULL;
		if (!before)
			continue; /* pruned: it was over long ago */
		if (before->state != VIEW_JOB_COMPLETED || !a)
			return -1;
		released = a->end_ms > released ? a->end_ms : released;
	}
	return released;
}

static void add_first_wait(struct waiting_sweep *s, const struct view_model *m, const struct view_job *j)
{
	int64_t start = j->attempts[0].start_ms;
	int64_t released = released_ms(m, j);
	int64_t ready = released > j->submit_ms && released <= start ? released : j->submit_ms;
	add_wait(s, REPORT_WAIT_ALL, start - j->submit_ms);
	if (j->num_after)
		add_wait(s, REPORT_WAIT_AFTER, ready - j->submit_ms);
	add_wait(s, REPORT_WAIT_GPU, start - ready);
	add_change(s, ready, 1, 0);
	add_change(s, start, -1, 0);
}

static void add_job(
	struct waiting_sweep *s, const struct report_facts *f, const struct view_model *m, const struct view_job *j)
{
	int64_t since = j->submit_ms;
	if (j->num_attempts)
		add_first_wait(s, m, j);
	for (size_t k = 0; k + 1 < j->num_attempts; k++) {
		int64_t end = j->attempts[k].end_ms, next = j->attempts[k + 1].start_ms;
		if (end < 0)
			continue;
		add_wait(s, REPORT_WAIT_RETRY, next - end);
		add_change(s, end, 1, 0);
		add_change(s, next, -1, 0);
	}
	if (j->state != VIEW_JOB_PENDING)
		return;
	if (j->num_attempts && view_job_last(j)->end_ms > since)
		since = view_job_last(j)->end_ms;
	add_wait(s, REPORT_WAIT_STILL, f->now_ms - since);
	int64_t released = j->num_attempts ? 0 : released_ms(m, j);
	if (released >= 0)
		add_change(s, released > since ? released : since, 1, 0);
}

static void add_gpu(struct waiting_sweep *s, const struct report_gpu *g)
{
	for (size_t i = 0; i < g->num_spans;) {
		int64_t start = g->spans[i].start_ms, end = g->spans[i].end_ms;
		for (i++; i < g->num_spans && g->spans[i].start_ms <= end; i++)
			end = g->spans[i].end_ms > end ? g->spans[i].end_ms : end;
		add_change(s, start, 0, 1);
		add_change(s, end, 0, -1);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static int64_t overlap(const struct report_facts *f, int64_t from, int64_t to)
{
	from = from < f->from_ms ? f->from_ms : from;
	to = to > f->to_ms ? f->to_ms : to;
	return to > from ? to - from : 0;
}

static void walk(struct report_facts *f, struct waiting_sweep *s, int64_t num_gpus)
{
	int64_t waiting = 0, busy = 0;
	qsort(s->changes, s->num_changes, sizeof(*s->changes), by_time);
	for (size_t i = 0; i < s->num_changes;) {
		int64_t now = s->changes[i].time_ms, before = waiting;
		for (; i < s->num_changes && s->changes[i].time_ms == now; i++) {
			waiting += s->changes[i].waiting;
			busy += s->changes[i].busy;
		}
		int64_t next = i < s->num_changes ? s->changes[i].time_ms : f->to_ms;
		int64_t idle = num_gpus > busy ? num_gpus - busy : 0;
		f->idle_ms += (waiting < idle ? waiting : idle) * overlap(f, now, next);
		if (waiting != before)
			f->depth[f->num_depth++] = (struct report_depth){now, waiting > 0 ? (size_t)waiting : 0};
	}
}

static int sweep_init(struct waiting_sweep *s, struct report_facts *f, const struct view_model *m)
{
	/* For each attempt a wait and a stay on each of its GPUs, for each job one wait more. */
	size_t waits = view_num_jobs(m), spans = 0;
	for (size_t i = 0; i < view_num_jobs(m); i++)
		waits += view_job(m, i)->num_attempts;
	for (size_t i = 0; i < f->num_gpus; i++)
		spans += f->gpus[i].num_spans;
	s->changes = calloc(2 * (waits + spans) + 1, sizeof(*s->changes));
	f->depth = arena_alloc(&f->arena, (2 * waits + 1) * sizeof(*f->depth));
	if (!s->changes || !f->depth)
		return -ENOMEM;
	for (size_t i = 0; i < REPORT_WAITS; i++) {
		s->values[i] = calloc(waits + 1, sizeof(int64_t));
		if (!s->values[i])
			return -ENOMEM;
	}
	return 0;
}

static void sweep_finish(struct waiting_sweep *s)
{
	free(s->changes);
	for (size_t i = 0; i < REPORT_WAITS; i++)
		free(s->values[i]);
}

int report_facts_waiting(struct report_facts *f, const struct view_model *m, int64_t since_ms)
{
	cleanup_(sweep_finish) struct waiting_sweep s = {0};
	int r = sweep_init(&s, f, m);
	if (r < 0)
		return r;
	for (size_t i = 0; i < view_num_jobs(m); i++)
		if (report_is_recent(view_job(m, i), since_ms))
			add_job(&s, f, m, view_job(m, i));
	int64_t num_gpus = 0;
	for (size_t i = 0; i < f->num_gpus; i++) {
		if (f->gpus[i].id == REPORT_NO_GPU)
			continue;
		add_gpu(&s, &f->gpus[i]);
		num_gpus++;
	}
	walk(f, &s, num_gpus);
	for (size_t i = 0; i < REPORT_WAITS; i++)
		f->waits[i] = report_times_of(s.values[i], s.counts[i]);
	return 0;
}
