/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "pool/pool_private.h"

SIZED_NO_TAIL(gd_stats, duration_max_ns);
SIZED_NO_TAIL(gd_worker_stats, loading_ns);
SIZED_NO_TAIL(gd_event, internal);

/* How many tasks a worker reports to be processing: with batches, several. */
static size_t running_in(const struct slot *s)
{
	if (!s->channel.out)
		return 0;
	/* In this order: if tasks end between the two loads, the second is too large, never too small. */
	uint64_t begun = slot_begun(s);
	uint64_t ended = atomic_load(&s->channel.out->ended);
	if (ended < s->completed)
		ended = s->completed;
	return ended < begun ? (size_t)(begun - ended) : 0;
}

static void add_times(const struct gd_pool *p, struct gd_stats *s)
{
	uint64_t until = s->end_ns ? s->end_ns : clock_now_ns();
	double seconds = (double)(until - s->start_ns) / NS_PER_S;
	s->tasks_per_second = seconds > 0 ? (double)(s->completed + s->failed + s->timeouts) / seconds : 0;
	s->duration_p50_ns = histogram_quantile(&p->durations, 0.50);
	s->duration_p90_ns = histogram_quantile(&p->durations, 0.90);
	s->duration_p99_ns = histogram_quantile(&p->durations, 0.99);
	s->duration_max_ns = p->durations.max;
}

void gd_pool_stats(const struct gd_pool *pool, struct gd_stats *ret, size_t size)
{
	struct gd_pool *p = (struct gd_pool *)pool; /* only the lock changes */
	pthread_mutex_lock(&p->lock);
	struct gd_stats s = p->stats;
	s.completed = atomic_load_explicit(&p->tally.completed, memory_order_relaxed);
	s.failed = atomic_load_explicit(&p->tally.failed, memory_order_relaxed);
	s.timeouts = atomic_load_explicit(&p->tally.timeouts, memory_order_relaxed);
	s.retries = atomic_load_explicit(&p->tally.retries, memory_order_relaxed);
	s.setup_failures = atomic_load_explicit(&p->tally.setup_failures, memory_order_relaxed);
	s.expected = p->options.total_tasks;
	s.cancelled = atomic_load_explicit(&p->tally.cancelled, memory_order_relaxed);
	s.submitted = p->next_id;
	s.queue_size = (uint64_t)p->options.queue_size;
	s.workers = p->num_slots;
	s.workers_alive = p->alive;
	uint64_t under_way = s.submitted - s.completed - s.failed - s.timeouts - s.cancelled;
	for (size_t i = 0; i < p->num_slots; i++)
		s.running += running_in(&p->slots[i]);
	if (s.running > under_way)
		s.running = under_way;
	s.queued = under_way - s.running;
	add_times(p, &s);
	pthread_mutex_unlock(&p->lock);
	sized_write(ret, size, &s, sizeof(s));
}

static enum gd_worker_state state_of(const struct slot *s)
{
	switch (s->state) {
	case SLOT_STARTING:
		return GD_WORKER_STATE_STARTING;
	case SLOT_READY:
		return slot_in_flight(s) > 0 ? GD_WORKER_STATE_BUSY : GD_WORKER_STATE_IDLE;
	case SLOT_CLOSING:
		return GD_WORKER_STATE_ENDING;
	case SLOT_FINISHED:
		return GD_WORKER_STATE_FINISHED;
	case SLOT_OUT:
		break;
	}
	return GD_WORKER_STATE_LOST;
}

/* When the task at the head began: as the worker reports, if plausible; otherwise when it was handed over. */
static uint64_t began_ns(const struct slot *s)
{
	uint64_t told = s->channel.out ? atomic_load_explicit(&s->channel.out->begun_ns, memory_order_relaxed) : 0;
	return told > s->stats.since_ns && told <= clock_now_ns() ? told : s->stats.since_ns;
}

int gd_pool_worker_stats(const struct gd_pool *pool, int slot, struct gd_worker_stats *ret, size_t size)
{
	struct gd_pool *p = (struct gd_pool *)pool;
	if (slot < 0 || (size_t)slot >= p->num_slots)
		return -ENOENT;
	pthread_mutex_lock(&p->lock);
	struct slot *s = &p->slots[slot];
	struct gd_worker_stats stats = s->stats;
	stats.completed = atomic_load_explicit(&s->tally.completed, memory_order_relaxed);
	stats.failed = atomic_load_explicit(&s->tally.failed, memory_order_relaxed);
	stats.timeouts = atomic_load_explicit(&s->tally.timeouts, memory_order_relaxed);
	stats.cancelled = atomic_load_explicit(&s->tally.cancelled, memory_order_relaxed);
	stats.pid = s->pid;
	stats.state = state_of(s);
	stats.loading_ns = s->loading_ns + (s->state == SLOT_STARTING ? clock_now_ns() - s->starting_ns : 0);
	stats.has_task = stats.state == GD_WORKER_STATE_BUSY;
	if (stats.has_task) {
		stats.task_id = slot_task(s, s->completed)->id;
		stats.since_ns = began_ns(s);
	} else {
		stats.since_ns = 0;
	}
	size_t in_flight = s->state == SLOT_READY ? slot_in_flight(s) : 0;
	stats.queued = in_flight > 1 ? in_flight - 1 : 0;
	pthread_mutex_unlock(&p->lock);
	sized_write(ret, size, &stats, sizeof(stats));
	return 0;
}

int64_t gd_pool_worker_task(const struct gd_pool *pool, int slot, void *data, size_t room, uint64_t *ret_id)
{
	struct gd_pool *p = (struct gd_pool *)pool;
	if (slot < 0 || (size_t)slot >= p->num_slots)
		return -ENOENT;
	int64_t size = -ENODATA;
	pthread_mutex_lock(&p->lock);
	struct slot *s = &p->slots[slot];
	/* The unanswered tasks of a ready worker are changed only by the holder of the lock. */
	const struct task *t = s->state == SLOT_READY && slot_in_flight(s) > 0 ? slot_task(s, s->completed) : NULL;
	if (t && !t->doomed && (t->data || t->size == 0)) {
		size = (int64_t)t->size;
		if (t->size && room)
			memcpy(data, t->data, t->size < room ? t->size : room);
		if (ret_id)
			*ret_id = t->id;
	}
	pthread_mutex_unlock(&p->lock);
	return size;
}
