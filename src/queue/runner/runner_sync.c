/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_sync.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "queue/keeper/nursery.h"
#include "queue/keeper/syncer.h"
#include "queue/runner/runner_latest.h"
#include "queue/runner/runner_private.h"

/* The journal is synced this long after an event: older ends survive a power cut. */
#define SYNC_MS 100

static void on_sync(void *context, uint32_t events)
{
	struct runner *r = context;
	(void)events;
	r->following.sync_due = false;
	runner_latest_link(r);
	if (r->following.syncer_fd >= 0 && syncer_request(r->following.syncer_fd) < 0)
		close_fd(&r->following.syncer_fd);
	if (r->following.syncer_fd < 0 && nursery_add_syncer(r->executing.nursery_fd, &r->following.syncer_fd) < 0)
		journal_sync(r->following.journal, NULL);
}

int runner_sync_open(struct runner *r)
{
	return loop_add_timer(r->loop, on_sync, r, &r->following.sync);
}

void runner_sync_plan(struct runner *r)
{
	if (!r->following.sync_due)
		loop_set_deadline(r->following.sync, clock_now_ns() + SYNC_MS * NS_PER_MS);
	r->following.sync_due = true;
}

void runner_sync_now(struct runner *r)
{
	runner_latest_link(r);
	journal_sync(r->following.journal, NULL);
}
