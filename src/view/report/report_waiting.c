/* SPDX-License-Identifier: MIT */
/* The cost of waiting: how long jobs waited and for what, and the idle GPU time meanwhile. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "view/report/report_facts.h"
#include "view/report/report_periods.h"

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* The nearest rank, so that the result is an actual value. */
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

/* From this time on, the number of waiting jobs, busy GPUs or pauses of the queue changes by this much. */
struct change {
	int64_t time_ms;
	int waiting, busy, paused;
};

struct waiting_sweep {
	struct report_periods pauses; /* of the queue */
	struct report_periods delays; /* of the current job */
	int64_t shown_ms;             /* the current job was counted as waiting until then */
	struct change *changes;
	size_t num_changes, changes_capacity;
	int error;
	int64_t *values[REPORT_WAITS];
	size_t counts[REPORT_WAITS];
};

static void add_change(struct waiting_sweep *s, struct change change)
{
	if (array_reserve(s->changes, &s->changes_capacity, s->num_changes + 1) < 0)
		s->error = -ENOMEM;
	else
		s->changes[s->num_changes++] = change;
}

static void add_wait(struct waiting_sweep *s, enum report_wait kind, int64_t ms)
{
	s->values[kind][s->counts[kind]++] = ms > 0 ? ms : 0;
}

/*
 * When the last of the jobs that it depends on ended; 0: it depends on none; -1: not all have ended. For a job that has
 * started, all have ended, even if they failed: it may only require their end.
 */
static int64_t released_ms(const struct view_model *m, const struct view_job *j)
{
	int64_t released = 0;
	for (size_t i = 0; i < j->num_after; i++) {
		const struct view_job *before = view_find_job(m, j->after[i]);
		const struct view_attempt *a = before ? view_job_last(before) : NULL;
		if (!before)
			continue; /* pruned: it ended long ago */
		if (before->state != VIEW_JOB_COMPLETED && !j->num_attempts)
			return -1;
		if (a && a->end_ms > released)
			released = a->end_ms;
	}
	return released;
}

/* The time that the current job waited between two moments, without its delays and the pauses of the queue. With
 * `shown`, it is counted as waiting meanwhile. */
static int64_t wait_between(struct waiting_sweep *s, int64_t from_ms, int64_t to_ms, bool shown)
{
	const struct report_periods *delays = &s->delays;
	int64_t waited = 0;
	for (size_t i = report_periods_after(delays, from_ms); from_ms < to_ms; i++) {
		bool delayed = i < delays->count && delays->list[i].from_ms < to_ms;
		int64_t until = delayed ? delays->list[i].from_ms : to_ms;
		waited += report_periods_outside(&s->pauses, from_ms, until);
		if (shown && until > from_ms) {
			add_change(s, (struct change){.time_ms = from_ms, .waiting = 1});
			add_change(s, (struct change){.time_ms = until, .waiting = -1});
		}
		from_ms = delayed ? delays->list[i].to_ms : to_ms;
	}
	return waited;
}

/*
 * Counts the job as waiting. The work grows with the number of delays plus the number of calls, not with their product,
 * because no time is counted twice for a job, whatever the times in its journal are.
 */
static int64_t show_wait(struct waiting_sweep *s, int64_t from_ms, int64_t to_ms)
{
	if (from_ms < s->shown_ms)
		from_ms = s->shown_ms;
	if (to_ms > s->shown_ms)
		s->shown_ms = to_ms;
	return wait_between(s, from_ms, to_ms, true);
}

static void add_first_wait(struct waiting_sweep *s, const struct view_model *m, const struct view_job *j)
{
	int64_t start = j->attempts[0].start_ms;
	int64_t released = released_ms(m, j);
	int64_t ready = released > j->submit_ms && released <= start ? released : j->submit_ms;
	int64_t all = wait_between(s, j->submit_ms, start, false), gpu = show_wait(s, ready, start);
	add_wait(s, REPORT_WAIT_ALL, all);
	if (j->num_after)
		add_wait(s, REPORT_WAIT_AFTER, all - gpu);
	add_wait(s, REPORT_WAIT_GPU, gpu);
}

/* Adds the total time that the job was held, and the time before its begin time. */
static void add_delays(struct waiting_sweep *s, const struct report_facts *f, const struct view_job *j)
{
	int64_t held = 0, begin = 0;
	for (size_t i = 0; i < j->num_delays; i++) {
		const struct view_delay *d = &j->delays[i];
		int64_t to = d->to_ms < 0 || d->to_ms > f->now_ms ? f->now_ms : d->to_ms;
		if (d->kind == VIEW_DELAY_HELD)
			held += to - d->from_ms;
		else if (d->kind == VIEW_DELAY_BEGIN)
			begin += to - d->from_ms;
	}
	if (held > 0)
		add_wait(s, REPORT_WAIT_HELD, held);
	if (begin > 0)
		add_wait(s, REPORT_WAIT_BEGIN, begin);
}

static void add_job(
	struct waiting_sweep *s, const struct report_facts *f, const struct view_model *m, const struct view_job *j)
{
	int64_t since = j->submit_ms;
	s->shown_ms = INT64_MIN;
	if (report_periods_set(&s->delays, j->delays, j->num_delays) < 0)
		s->error = -ENOMEM;
	if (j->num_attempts)
		add_first_wait(s, m, j);
	for (size_t k = 0; k + 1 < j->num_attempts; k++)
		if (j->attempts[k].end_ms >= 0)
			add_wait(
				s, REPORT_WAIT_RETRY, show_wait(s, j->attempts[k].end_ms, j->attempts[k + 1].start_ms));
	add_delays(s, f, j);
	if (j->state != VIEW_JOB_PENDING)
		return;
	if (j->num_attempts && view_job_last(j)->end_ms > since)
		since = view_job_last(j)->end_ms;
	add_wait(s, REPORT_WAIT_STILL, wait_between(s, since, f->now_ms, false));
	int64_t released = j->num_attempts ? 0 : released_ms(m, j);
	if (released >= 0)
		show_wait(s, released > since ? released : since, f->now_ms);
}

static void add_gpu(struct waiting_sweep *s, const struct report_gpu *g)
{
	for (size_t i = 0; i < g->num_spans;) {
		int64_t start = g->spans[i].start_ms, end = g->spans[i].end_ms;
		for (i++; i < g->num_spans && g->spans[i].start_ms <= end; i++)
			end = g->spans[i].end_ms > end ? g->spans[i].end_ms : end;
		add_change(s, (struct change){.time_ms = start, .busy = 1});
		add_change(s, (struct change){.time_ms = end, .busy = -1});
	}
}

static void add_pauses(struct waiting_sweep *s)
{
	for (size_t i = 0; i < s->pauses.count; i++) {
		add_change(s, (struct change){.time_ms = s->pauses.list[i].from_ms, .paused = 1});
		add_change(s, (struct change){.time_ms = s->pauses.list[i].to_ms, .paused = -1});
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

static int walk(struct report_facts *f, struct waiting_sweep *s, int64_t num_gpus)
{
	int64_t waiting = 0, busy = 0, paused = 0, shown = 0;
	f->depth = arena_alloc(&f->arena, (s->num_changes + 1) * sizeof(*f->depth));
	if (s->error || !f->depth)
		return -ENOMEM;
	if (s->num_changes)
		qsort(s->changes, s->num_changes, sizeof(*s->changes), by_time);
	for (size_t i = 0; i < s->num_changes;) {
		int64_t now = s->changes[i].time_ms, before = shown;
		for (; i < s->num_changes && s->changes[i].time_ms == now; i++) {
			waiting += s->changes[i].waiting;
			busy += s->changes[i].busy;
			paused += s->changes[i].paused;
		}
		/* While the queue is paused, no job waits for a GPU. */
		shown = paused || waiting < 0 ? 0 : waiting;
		int64_t next = i < s->num_changes ? s->changes[i].time_ms : f->to_ms;
		int64_t idle = num_gpus > busy ? num_gpus - busy : 0;
		f->idle_ms += (shown < idle ? shown : idle) * overlap(f, now, next);
		if (shown != before)
			f->depth[f->num_depth++] = (struct report_depth){now, (size_t)shown};
	}
	return 0;
}

static int sweep_init(struct waiting_sweep *s, const struct view_model *m)
{
	/* One wait before each attempt, and one at the end of each job. */
	size_t waits = view_num_jobs(m);
	for (size_t i = 0; i < view_num_jobs(m); i++)
		waits += view_job(m, i)->num_attempts;
	for (size_t i = 0; i < REPORT_WAITS; i++) {
		s->values[i] = calloc(waits + 1, sizeof(int64_t));
		if (!s->values[i])
			return -ENOMEM;
	}
	return 0;
}

static void sweep_finish(struct waiting_sweep *s)
{
	report_periods_finish(&s->pauses);
	report_periods_finish(&s->delays);
	free(s->changes);
	for (size_t i = 0; i < REPORT_WAITS; i++)
		free(s->values[i]);
}

int report_facts_waiting(struct report_facts *f, const struct view_model *m, int64_t since_ms)
{
	cleanup_(sweep_finish) struct waiting_sweep s = {0};
	size_t num_pauses;
	const struct view_delay *pauses = view_pauses(m, &num_pauses);
	if (report_periods_set(&s.pauses, pauses, num_pauses) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s.pauses.count; i++)
		f->paused_ms += overlap(f, s.pauses.list[i].from_ms, s.pauses.list[i].to_ms);
	int r = sweep_init(&s, m);
	if (r < 0)
		return r;
	for (size_t i = 0; i < view_num_jobs(m); i++)
		if (report_is_recent(view_job(m, i), since_ms))
			add_job(&s, f, m, view_job(m, i));
	add_pauses(&s);
	int64_t num_gpus = 0;
	for (size_t i = 0; i < f->num_gpus; i++) {
		if (f->gpus[i].id == REPORT_NO_GPU)
			continue;
		add_gpu(&s, &f->gpus[i]);
		num_gpus++;
	}
	r = walk(f, &s, num_gpus);
	if (r < 0)
		return r;
	for (size_t i = 0; i < REPORT_WAITS; i++)
		f->waits[i] = report_times_of(s.values[i], s.counts[i]);
	return 0;
}
