/* SPDX-License-Identifier: MIT */
/*
 * Syncs of the journal, made by another process (queue/keeper/syncer.h): a slow disk or file server must not delay the
 * answers to heartbeats, which pilots need to survive. One sync is in progress at a time; all lines that are appended
 * meanwhile wait for the next one.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/loop.h"
#include "queue/keeper/nursery.h"
#include "queue/keeper/syncer.h"
#include "slurm/coordinating.h"
#include "slurm/coordinator_hooks.h"

static void close_syncer(struct coordinator_sync *s)
{
	loop_remove(s->source);
	s->source = NULL;
	closep(&s->fd);
	s->fd = -1;
}

static void over(struct coordinator *c, int result);

static void on_answer(void *context, uint32_t events)
{
	struct coordinator *c = context;
	struct syncer_answer a;
	(void)events;
	ssize_t n = read(c->sync.fd, &a, sizeof(a));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(a)) {
		over(c, a.result);
		return;
	}
	/* The syncer was killed: this process syncs instead. */
	close_syncer(&c->sync);
	if (c->sync.num_syncing)
		over(c, coordinator_journal_sync(c->journal, &c->error));
}

/* False: no syncer is available now. */
static bool request(struct coordinator *c)
{
	struct coordinator_sync *s = &c->sync;
	if (s->fd >= 0 && syncer_request(s->fd) == 0)
		return true;
	close_syncer(s);
	if (nursery_add_syncer(coordinator_hooks_nursery(c->hooks), &s->fd) < 0) {
		s->fd = -1;
		return false;
	}
	if (loop_add(c->loop, s->fd, EPOLLIN, on_answer, c, &s->source) < 0 || syncer_request(s->fd) < 0) {
		close_syncer(s);
		return false;
	}
	return true;
}

static void begin(struct coordinator *c)
{
	struct coordinator_sync *s = &c->sync;
	if (s->num_syncing || !s->num_waiting)
		return;
	uint64_t *numbers = s->syncing;
	size_t capacity = s->syncing_capacity;
	s->syncing = s->waiting;
	s->num_syncing = s->num_waiting;
	s->syncing_capacity = s->waiting_capacity;
	s->waiting = numbers;
	s->waiting_capacity = capacity;
	s->num_waiting = 0;
	if (!request(c))
		over(c, coordinator_journal_sync(c->journal, &c->error));
}

/* The lines that were appended before the sync started are durable, or `result` is the error. */
static void over(struct coordinator *c, int result)
{
	struct coordinator_sync *s = &c->sync;
	for (size_t i = 0; i < s->num_syncing; i++) {
		struct core_answer *a = coordinating_answer(c, COORDINATOR_WRITTEN);
		if (!a)
			return;
		a->number = s->syncing[i];
		a->result = result;
	}
	s->num_syncing = 0;
	begin(c);
}

void coordinating_sync(struct coordinator *c, uint64_t write)
{
	struct coordinator_sync *s = &c->sync;
	if (array_reserve(s->waiting, &s->waiting_capacity, s->num_waiting + 1) < 0) {
		coordinating_die(c, -ENOMEM);
		return;
	}
	s->waiting[s->num_waiting++] = write;
}

void coordinating_sync_begin(struct coordinator *c)
{
	begin(c);
}

bool coordinating_is_syncing(const struct coordinator *c)
{
	return c->sync.num_syncing || c->sync.num_waiting;
}

void coordinating_sync_close(struct coordinator *c)
{
	if (c->sync.fd >= 0)
		close_syncer(&c->sync);
	free(c->sync.syncing);
	free(c->sync.waiting);
}
