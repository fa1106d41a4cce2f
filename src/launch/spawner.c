/* SPDX-License-Identifier: MIT */
/* The workers of a run, for those who think in workers rather than in tasks. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "gpu_dispatch_launch.h"

struct gd_spawner {
	struct gd_pool *pool;
};

int gd_spawner_start(const struct gd_options *options, struct gd_spawner **ret, struct gd_error *err)
{
	struct gd_spawner *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, -ENOMEM, "no memory for a spawner");
	int r = gd_pool_open(options, &s->pool, err);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct gd_pool *gd_spawner_pool(const struct gd_spawner *s)
{
	return s->pool;
}

size_t gd_spawner_count(const struct gd_spawner *s)
{
	struct gd_stats stats;
	gd_pool_stats(s->pool, &stats);
	return stats.workers;
}

size_t gd_spawner_alive(const struct gd_spawner *s)
{
	struct gd_stats stats;
	gd_pool_stats(s->pool, &stats);
	return stats.workers_alive;
}

int gd_spawner_status(const struct gd_spawner *s, int slot, struct gd_worker_stats *ret)
{
	return gd_pool_worker_stats(s->pool, slot, ret);
}

/* How many are ready; -EAGAIN while one is on its way, or has answered before we were told who it is. */
static int count_ready(const struct gd_spawner *s)
{
	int ready = 0;
	struct gd_worker_stats stats;
	for (int slot = 0; gd_pool_worker_stats(s->pool, slot, &stats) == 0; slot++) {
		bool lives = stats.state == GD_WORKER_STATE_IDLE || stats.state == GD_WORKER_STATE_BUSY;
		if (stats.state == GD_WORKER_STATE_STARTING || (lives && stats.pid == 0))
			return -EAGAIN;
		ready += lives;
	}
	return ready;
}

static uint64_t deadline_in(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

static bool is_over(uint64_t deadline_ns)
{
	return deadline_ns != UINT64_MAX && clock_now_ns() >= deadline_ns;
}

static void wait_for_news(const struct gd_spawner *s, uint64_t deadline_ns)
{
	struct pollfd fd = {.fd = gd_pool_fd(s->pool), .events = POLLIN};
	int timeout_ms = deadline_ns == UINT64_MAX ? -1 : clock_ms_until(deadline_ns, clock_now_ns());
	(void)poll(&fd, 1, timeout_ms); /* interrupted: one looks once more */
}

/* Setups are told of by no callback of the pool: its descriptor turns readable, and one looks. */
int gd_spawner_ready(struct gd_spawner *s, int timeout_ms)
{
	uint64_t deadline_ns = deadline_in(timeout_ms);
	for (;;) {
		int r = gd_pool_poll(s->pool, 0);
		if (r == -EDEADLK)
			return r;
		r = count_ready(s);
		if (r != -EAGAIN)
			return r;
		if (is_over(deadline_ns))
			return -ETIMEDOUT;
		wait_for_news(s, deadline_ns);
	}
}

int gd_spawner_wait(struct gd_spawner *s, int timeout_ms)
{
	uint64_t deadline_ns = deadline_in(timeout_ms);
	for (;;) {
		int left_ms = timeout_ms < 0 ? -1 : clock_ms_until(deadline_ns, clock_now_ns());
		int r = gd_pool_poll(s->pool, left_ms);
		if (r < 0 || gd_pool_outstanding(s->pool) == 0)
			return r < 0 ? r : 0;
		if (is_over(deadline_ns))
			return -ETIMEDOUT;
	}
}

int gd_spawner_end(struct gd_spawner *s, struct gd_stats *ret_stats, struct gd_error *err)
{
	if (!s)
		return 0;
	int r = gd_pool_close(s->pool, ret_stats, err);
	if (r != -EDEADLK)
		free(s);
	return r;
}
