/* SPDX-License-Identifier: MIT */
/* Waiting for all workers or all tasks of a pool, with its public functions. */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "gpu_dispatch.h"

/* How many workers are ready; -EAGAIN while one is being started or replaced, or its process id has not been reported
 * yet. */
static int count_ready(const struct gd_pool *p)
{
	int ready = 0;
	struct gd_worker_stats stats;
	for (int slot = 0; gd_pool_worker_stats(p, slot, &stats, sizeof(stats)) == 0; slot++) {
		bool lives = stats.state == GD_WORKER_STATE_IDLE || stats.state == GD_WORKER_STATE_BUSY;
		bool comes = stats.state == GD_WORKER_STATE_STARTING || stats.state == GD_WORKER_STATE_ENDING;
		if (comes || (lives && stats.pid == 0))
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

static int ms_left(uint64_t deadline_ns)
{
	return deadline_ns == UINT64_MAX ? -1 : clock_ms_until(deadline_ns, clock_now_ns());
}

/* The end of a setup makes no callback: the pool's descriptor becomes readable, and we check again. */
int gd_pool_wait_ready(struct gd_pool *p, int timeout_ms)
{
	uint64_t deadline_ns = deadline_in(timeout_ms);
	for (;;) {
		int r = gd_pool_poll(p, 0, 0);
		if (r == -EDEADLK)
			return r;
		r = count_ready(p);
		if (r != -EAGAIN)
			return r;
		if (is_over(deadline_ns))
			return -ETIMEDOUT;
		struct pollfd fd = {.fd = gd_pool_fd(p), .events = POLLIN};
		(void)poll(&fd, 1, ms_left(deadline_ns)); /* a signal: check again */
	}
}

int gd_pool_wait(struct gd_pool *p, int timeout_ms)
{
	uint64_t deadline_ns = deadline_in(timeout_ms);
	for (;;) {
		int r = gd_pool_poll(p, ms_left(deadline_ns), 0);
		size_t outstanding = gd_pool_outstanding(p);
		/* After callbacks, poll once more: only then does it return why no task is left. */
		if (r < 0 || (r == 0 && outstanding == 0))
			return r;
		if (outstanding > 0 && is_over(deadline_ns))
			return -ETIMEDOUT;
	}
}
