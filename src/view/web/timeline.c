/* SPDX-License-Identifier: MIT */
#include "view/web/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

struct builder {
	struct timeline_bar *bars;
	size_t count, capacity;
	int64_t from_ms, to_ms;
};

static int add_bar(struct builder *b, const struct timeline_bar *bar)
{
	if (array_reserve(b->bars, &b->capacity, b->count + 1) < 0)
		return -ENOMEM;
	b->bars[b->count++] = *bar;
	return 0;
}

/* -1: running. An unknown end (in the journal of another program) is the start plus the duration, if that is known. */
static int64_t end_of(const struct view_attempt *a)
{
	if (a->state == VIEW_JOB_RUNNING)
		return -1;
	if (a->end_ms >= 0)
		return a->end_ms < a->start_ms ? a->start_ms : a->end_ms;
	return a->start_ms + (a->duration_ms > 0 ? a->duration_ms : 0);
}

static int add_attempt(struct builder *b, const struct view_job *job, const struct view_attempt *a)
{
	int64_t end = end_of(a);
	int r = 0;
	if (a->start_ms <= 0 || a->start_ms > b->to_ms || (end >= 0 && end < b->from_ms))
		return 0;
	for (size_t i = 0; r == 0 && i < a->num_gpus; i++)
		r = add_bar(b, &(struct timeline_bar){.gpu = a->gpus[i],
				       .start_ms = a->start_ms,
				       .end_ms = end,
				       .id = job->id,
				       .count = 1,
				       .failed = a->state == VIEW_JOB_FAILED,
				       .state = a->state});
	return r;
}

static void count_end(struct timeline *t, const struct view_attempt *a)
{
	int64_t end = end_of(a);
	if (end < t->bins_from_ms || end > t->to_ms || end < t->from_ms)
		return;
	size_t i = (size_t)((end - t->bins_from_ms) / t->bin_ms);
	struct timeline_bin *bin = &t->bins[i < TIMELINE_BINS ? i : TIMELINE_BINS - 1];
	if (a->state == VIEW_JOB_COMPLETED)
		bin->completed++;
	else if (a->state == VIEW_JOB_FAILED)
		bin->failed++;
	else if (a->state == VIEW_JOB_CANCELLED)
		bin->cancelled++;
}

static int compare_starts(const void *x, const void *y)
{
	const struct timeline_bar *a = x, *b = y;
	if (a->gpu != b->gpu)
		return a->gpu < b->gpu ? -1 : 1;
	if (a->start_ms != b->start_ms)
		return a->start_ms < b->start_ms ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int compare_lanes(const void *x, const void *y)
{
	const struct timeline_bar *a = x, *b = y;
	return a->gpu == b->gpu && a->lane != b->lane ? (a->lane > b->lane) - (a->lane < b->lane)
						      : compare_starts(x, y);
}

/* The first row that is free at that time; if there is none, the one that becomes free first. */
static int find_lane(const int64_t ends[TIMELINE_LANES], int64_t start_ms)
{
	int first = 0;
	for (int i = 0; i < TIMELINE_LANES; i++) {
		if (ends[i] <= start_ms)
			return i;
		if (ends[i] < ends[first])
			first = i;
	}
	return first;
}

static bool is_short(const struct timeline_bar *bar, int64_t grain_ms)
{
	return bar->count > 1 || (bar->end_ms >= 0 && bar->end_ms - bar->start_ms < grain_ms);
}

static void join(struct timeline_bar *bar, const struct timeline_bar *next)
{
	if (next->end_ms > bar->end_ms)
		bar->end_ms = next->end_ms;
	bar->id = next->id;
	bar->count += next->count;
	bar->failed += next->failed;
}

static void join_short(struct builder *b, int64_t grain_ms)
{
	struct timeline_bar *last[TIMELINE_LANES] = {0};
	int64_t ends[TIMELINE_LANES] = {0};
	size_t kept = 0;
	int gpu = 0;
	for (size_t i = 0; i < b->count; i++) {
		struct timeline_bar bar = b->bars[i];
		if (i == 0 || bar.gpu != gpu)
			for (int k = 0; k < TIMELINE_LANES; k++)
				last[k] = NULL, ends[k] = INT64_MIN;
		gpu = bar.gpu;
		bar.lane = find_lane(ends, bar.start_ms);
		ends[bar.lane] = bar.end_ms < 0 ? INT64_MAX : bar.end_ms;
		struct timeline_bar *before = last[bar.lane];
		if (before && is_short(before, grain_ms) && is_short(&bar, grain_ms) &&
			bar.start_ms - before->end_ms < grain_ms) {
			join(before, &bar);
			continue;
		}
		/* `kept` never passes i: only bars already read are overwritten. */
		b->bars[kept] = bar;
		last[bar.lane] = &b->bars[kept++];
	}
	b->count = kept;
}

int timeline_build(const struct view_model *m, int64_t from_ms, int64_t to_ms, int64_t grain_ms, struct timeline *ret)
{
	struct builder b = {.from_ms = from_ms, .to_ms = to_ms};
	struct timeline t = {.from_ms = from_ms, .to_ms = to_ms};
	int r = 0;
	t.bin_ms = (to_ms - from_ms) / TIMELINE_BINS;
	t.bin_ms = t.bin_ms > 0 ? t.bin_ms : 1;
	t.bins_from_ms = to_ms / t.bin_ms * t.bin_ms - (TIMELINE_BINS - 1) * t.bin_ms;
	for (size_t i = 0; r == 0 && i < view_num_jobs(m); i++) {
		const struct view_job *job = view_job(m, i);
		for (size_t k = 0; r == 0 && k < job->num_attempts; k++) {
			count_end(&t, &job->attempts[k]);
			r = add_attempt(&b, job, &job->attempts[k]);
		}
	}
	if (r < 0) {
		free(b.bars);
		return r;
	}
	if (b.count) {
		qsort(b.bars, b.count, sizeof(*b.bars), compare_starts);
		join_short(&b, grain_ms);
		qsort(b.bars, b.count, sizeof(*b.bars), compare_lanes);
	}
	t.bars = b.bars;
	t.num_bars = b.count;
	*ret = t;
	return 0;
}

void timeline_finish(struct timeline *t)
{
	free(t->bars);
	*t = (struct timeline){0};
}
