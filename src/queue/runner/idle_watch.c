/* SPDX-License-Identifier: MIT */
#include "queue/runner/idle_watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

/* Maximum time between two readings. GPUs are polled at least every two seconds, unless a driver or the runner is
 * stuck. */
#define GAP_NS (15000 * NS_PER_MS)

int idle_watch_make(struct idle_watch *w, size_t num_gpus)
{
	if (w->gpus)
		return 0;
	w->gpus = calloc(num_gpus + 1, sizeof(*w->gpus));
	if (!w->gpus)
		return -ENOMEM;
	w->num_gpus = num_gpus;
	return 0;
}

void idle_watch_finish(struct idle_watch *w)
{
	free(w->gpus);
	*w = (struct idle_watch){0};
}

static enum idle_change end_stretch(struct idle_gpu *g)
{
	bool marked = g->marked;
	*g = (struct idle_gpu){0};
	return marked ? IDLE_UNMARKED : IDLE_NO_CHANGE;
}

enum idle_change idle_watch_read(struct idle_watch *w, size_t gpu, uint64_t warn_ns, const struct idle_reading *reading)
{
	struct idle_gpu *g = &w->gpus[gpu];
	bool idle = reading->known && reading->percent <= IDLE_WATCH_PERCENT;
	bool gap = g->since_ns && reading->now_ns - g->read_ns > GAP_NS;
	enum idle_change change = !idle || gap ? end_stretch(g) : IDLE_NO_CHANGE;
	if (!idle)
		return change;
	if (!g->since_ns) {
		g->since_ns = g->read_ns = reading->now_ns;
		g->since_ms = reading->now_ms;
	}
	if (g->marked) {
		w->idle_ns += reading->now_ns - g->read_ns;
	} else if (change == IDLE_NO_CHANGE && reading->now_ns - g->since_ns >= warn_ns) {
		g->marked = true;
		w->idle_ns += reading->now_ns - g->since_ns;
		change = IDLE_MARKED;
	}
	g->read_ns = reading->now_ns;
	return change;
}

void idle_watch_restore(struct idle_watch *w, size_t gpu, uint64_t now_ns, int64_t since_ms)
{
	w->gpus[gpu] = (struct idle_gpu){.since_ns = now_ns, .since_ms = since_ms, .read_ns = now_ns, .marked = true};
}

bool idle_watch_reset(struct idle_watch *w)
{
	bool marked = false;
	for (size_t i = 0; i < w->num_gpus; i++)
		marked = end_stretch(&w->gpus[i]) == IDLE_UNMARKED || marked;
	return marked;
}

int64_t idle_watch_since_ms(const struct idle_watch *w)
{
	int64_t first = 0;
	for (size_t i = 0; i < w->num_gpus; i++)
		if (w->gpus[i].marked && (!first || w->gpus[i].since_ms < first))
			first = w->gpus[i].since_ms;
	return first;
}
