/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/sized.h"
#include "pool/dispatcher_private.h"

void dispatcher_remember(struct gd_dispatcher *d, struct gd_pool *p)
{
	struct gd_stats stats;
	gd_pool_stats(p, &stats, sizeof(stats));
	struct gd_worker_stats *workers = calloc(stats.workers, sizeof(*workers));
	for (size_t i = 0; workers && i < stats.workers; i++) {
		gd_pool_worker_stats(p, (int)i, &workers[i], sizeof(workers[i]));
		workers[i].pid = 0;
		if (workers[i].state != GD_WORKER_STATE_LOST)
			workers[i].state = GD_WORKER_STATE_FINISHED;
	}
	pthread_mutex_lock(&d->lock);
	free(d->last_workers);
	d->last_workers = workers;
	d->num_last_workers = workers ? stats.workers : 0;
	d->last = stats;
	d->pool = NULL;
	pthread_mutex_unlock(&d->lock);
}

void gd_dispatcher_stats(const struct gd_dispatcher *dispatcher, struct gd_stats *ret, size_t size)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher; /* only the lock changes */
	pthread_mutex_lock(&d->lock);
	if (d->pool)
		gd_pool_stats(d->pool, ret, size);
	else
		sized_write(ret, size, &d->last, sizeof(d->last));
	pthread_mutex_unlock(&d->lock);
}

int gd_dispatcher_worker_stats(
	const struct gd_dispatcher *dispatcher, int slot, struct gd_worker_stats *ret, size_t size)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher;
	int r = -ENOENT;
	pthread_mutex_lock(&d->lock);
	if (d->pool) {
		r = gd_pool_worker_stats(d->pool, slot, ret, size);
	} else if (slot >= 0 && (size_t)slot < d->num_last_workers) {
		sized_write(ret, size, &d->last_workers[slot], sizeof(d->last_workers[slot]));
		r = 0;
	}
	pthread_mutex_unlock(&d->lock);
	return r;
}

int64_t gd_dispatcher_worker_task(
	const struct gd_dispatcher *dispatcher, int slot, void *data, size_t room, uint64_t *ret_id)
{
	struct gd_dispatcher *d = (struct gd_dispatcher *)dispatcher;
	pthread_mutex_lock(&d->lock);
	bool known = slot >= 0 && (size_t)slot < d->num_last_workers;
	int64_t size = d->pool ? gd_pool_worker_task(d->pool, slot, data, room, ret_id) : known ? -ENODATA : -ENOENT;
	pthread_mutex_unlock(&d->lock);
	return size;
}
