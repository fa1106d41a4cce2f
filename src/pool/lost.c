/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "pool/pool_private.h"

#define WORDS_MAX 512

/* Puts a task back that may not have caused the failure: it is processed again, alone, in the same attempt. Returns
 * false after a stop. */
static bool repeat(struct gd_pool *p, struct task *t)
{
	if (t->doomed || p->closing || atomic_load(&p->stop) > 0)
		return false;
	return pool_requeue(p, t, (struct requeue){.tries = t->tries, .avoid = -1, .alone = true});
}

static void conclude_as(struct gd_pool *p, struct slot *s, struct task *t, struct gd_event *event)
{
	if (event->failure == GD_FAILURE_TIMED_OUT)
		tally_count(&s->tally.timeouts);
	else if (event->failure == GD_FAILURE_CANCELLED)
		tally_count(&s->tally.cancelled);
	else
		tally_count(&s->tally.failed);
	pool_conclude(p, t, event);
}

static void conclude_cancelled(struct gd_pool *p, struct slot *s, struct task *t, struct gd_event *event, bool killed)
{
	event->failure = GD_FAILURE_CANCELLED;
	event->code = -ECANCELED;
	event->signal = killed ? SIGKILL : 0;
	event->address = 0;
	event->message =
		killed ? "cancelled; its worker did not stop and was killed" : "cancelled while it was being processed";
	conclude_as(p, s, t, event);
}

void pool_conclude_timed_out(struct gd_pool *p, struct slot *s, uint64_t seq, struct gd_event *event, bool killed)
{
	struct task *t = slot_task(s, seq);
	uint64_t mark = inbox_mark(s->channel.in, seq);
	if ((mark & RING_MARK_SHARED) && !t->alone) {
		if (repeat(p, t))
			return;
		if (mark & RING_MARK_CANCELLED) {
			conclude_cancelled(p, s, t, event, killed);
			return;
		}
	}
	char words[WORDS_MAX];
	snprintf(words, sizeof(words), "not finished within %lld ms%s", (long long)t->timeout_ms,
		killed ? "; its worker did not stop and was killed" : "");
	event->failure = GD_FAILURE_TIMED_OUT;
	event->code = -ETIMEDOUT;
	event->message = words;
	conclude_as(p, s, t, event);
}

/* Ends a task that its worker has not answered. `killed`: the worker was killed because of this or another task. */
static void conclude_one(struct gd_pool *p, struct slot *s, uint64_t seq, struct gd_event *event, bool killed)
{
	struct task *t = slot_task(s, seq);
	uint64_t mark = inbox_mark(s->channel.in, seq);
	if (event->failure == GD_FAILURE_STUCK)
		conclude_as(p, s, t, event);
	else if (mark & RING_MARK_TIMED_OUT)
		pool_conclude_timed_out(p, s, seq, event, true);
	else if (!killed)
		conclude_as(p, s, t, event); /* also a cancelled task: the worker ended before it was killed */
	else if ((mark & RING_MARK_CANCELLED) || !repeat(p, t))
		conclude_cancelled(p, s, t, event, true);
}

void pool_conclude_lost(struct gd_pool *p, struct slot *s, const struct lost *lost)
{
	uint64_t began_ns = atomic_load(&s->channel.out->begun_ns);
	uint64_t now = clock_now_ns();
	for (uint64_t seq = lost->first; seq < lost->begun; seq++) {
		struct task *t = slot_task(s, seq);
		struct gd_event event;
		pool_event_init(&event, s, t);
		event.started_ns = began_ns >= t->queued_ns && began_ns <= now ? began_ns : t->queued_ns;
		pool_announce(p, s, t, event.started_ns);
		event.ended_ns = now;
		event.failure = lost->end->failure;
		event.code = lost->end->code;
		event.signal = lost->end->signal;
		event.address = lost->end->address;
		event.message = lost->end->message;
		conclude_one(p, s, seq, &event, lost->killed);
	}
}
