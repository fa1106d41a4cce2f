/* SPDX-License-Identifier: MIT */
/* Attempts of a pilot, from the grant to the acknowledged end. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "slurm/pilot_private.h"

/* Longest time that an end waits for others, beyond its hold. */
#define BATCH_NS (25 * NS_PER_MS)

static struct pilot_attempt *find(const struct pilot_core *c, struct attempt_id id)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].id.job == id.job && c->attempts[i].id.attempt == id.attempt)
			return &c->attempts[i];
	return NULL;
}

static void forget(struct pilot_core *c, struct pilot_attempt *a)
{
	*a = c->attempts[--c->num_attempts];
}

static void reject(struct pilot_core *c, struct attempt_id id, enum rejection why, const char *words)
{
	struct frame *f = pilot_answer(c, FRAME_REJECT);
	if (!f)
		return;
	f->reject = (struct frame_reject){.id = id, .rejection = why};
	snprintf(f->reject.words, sizeof(f->reject.words), "%s", words);
}

static void send_begun(struct pilot_core *c, struct attempt_id id, int64_t pid)
{
	struct frame *f = pilot_answer(c, FRAME_BEGUN);
	if (f)
		f->begun = (struct frame_begun){.id = id, .pid = pid};
}

void pilot_send_end(struct pilot_core *c, const struct pilot_attempt *a)
{
	struct frame *f = pilot_answer(c, FRAME_END);
	if (f)
		f->end = a->end;
}

/* Releases the final end of an attempt. */
static void release_end(struct pilot_core *c, struct pilot_attempt *a)
{
	struct queued_action *q = pilot_push(c, PILOT_RECORD, 0);
	if (!q)
		return;
	q->end = a->end;
	q->action.end = &q->end;
	a->stage = STAGE_ENDED;
	pilot_send_end(c, a);
}

/* False if the attempt must not begin; then the grant was answered. */
static bool may_begin(struct pilot_core *c, const struct frame_grant *g)
{
	struct attempt_entry *seen = attempt_table_add(&c->seen, g->id.job);
	const struct pilot_attempt *known = find(c, g->id);
	if (!seen) {
		c->error = -ENOMEM;
		return false;
	}
	if (known) {
		if (known->stage == STAGE_ENDED)
			pilot_send_end(c, known);
		return false;
	}
	if (g->id.attempt <= seen->attempt) {
		reject(c, g->id, REJECTION_REPEATED, "this attempt or a later one was seen before");
		return false;
	}
	seen->attempt = g->id.attempt;
	if (c->ending || c->left) {
		reject(c, g->id, REJECTION_ENDING, "the pilot is about to end");
		return false;
	}
	if (!pilot_has_lease(c)) {
		reject(c, g->id, REJECTION_LEASE, "the lease has ended");
		return false;
	}
	return true;
}

void pilot_on_grant(struct pilot_core *c, const struct frame_grant *g)
{
	if (!may_begin(c, g))
		return;
	size_t gpus_size = g->num_gpus * sizeof(*g->gpus);
	if (array_reserve(c->attempts, &c->attempts_capacity, c->num_attempts + 1) < 0) {
		c->error = -ENOMEM;
		return;
	}
	struct queued_action *q = pilot_push(c, PILOT_BEGIN, gpus_size + g->order_size);
	if (!q)
		return;
	if (gpus_size)
		memcpy(q->memory, g->gpus, gpus_size);
	if (g->order_size)
		memcpy(q->memory + gpus_size, g->order, g->order_size);
	q->grant = *g;
	q->grant.gpus = (const int *)(const void *)q->memory;
	q->grant.order = q->memory + gpus_size;
	q->action.grant = &q->grant;
	q->action.id = g->id;
	c->attempts[c->num_attempts++] = (struct pilot_attempt){.id = g->id, .stage = STAGE_STARTING};
}

void pilot_on_cancel(struct pilot_core *c, const struct frame_cancel *f)
{
	const struct pilot_attempt *a = find(c, f->id);
	if (a && a->stage >= STAGE_HELD)
		return;
	if (a) {
		struct queued_action *q = pilot_push(c, PILOT_STOP, 0);
		if (q) {
			q->action.id = f->id;
			q->action.mode = f->mode;
		}
		return;
	}
	/* A grant that arrives later is rejected. */
	struct attempt_entry *seen = attempt_table_add(&c->seen, f->id.job);
	if (!seen)
		c->error = -ENOMEM;
	else if (f->id.attempt > seen->attempt) {
		seen->attempt = f->id.attempt;
		reject(c, f->id, REJECTION_CANCELLED, "cancelled before it began");
	}
}

void pilot_on_started(struct pilot_core *c, const struct pilot_event *e)
{
	struct pilot_attempt *a = find(c, e->id);
	if (!a || a->stage != STAGE_STARTING)
		return;
	a->stage = STAGE_RUNNING;
	send_begun(c, e->id, e->pid);
}

void pilot_on_not_started(struct pilot_core *c, const struct pilot_event *e)
{
	struct pilot_attempt *a = find(c, e->id);
	if (!a || a->stage != STAGE_STARTING)
		return;
	forget(c, a);
	reject(c, e->id, c->ending ? REJECTION_ENDING : REJECTION_START, e->words ? e->words : "");
}

/* ---- Ends ------------------------------------------------------------------------------ */

static void interrupt_end(struct pilot_attempt *a)
{
	a->end.outcome = OUTCOME_INTERRUPTED;
	snprintf(a->end.reason, sizeof(a->end.reason), "%s", "interrupted");
}

/* The GPU is free already, so nothing waits for an end: ends that are released together need one sync and one write of
 * the coordinator. */
static uint64_t batch_wait_ns(uint64_t hold_ns)
{
	return hold_ns / 6 < BATCH_NS ? hold_ns / 6 : BATCH_NS;
}

void pilot_on_exited(struct pilot_core *c, const struct pilot_exit *e)
{
	struct pilot_attempt *a = find(c, e->id);
	if (!a || a->stage >= STAGE_HELD)
		return;
	a->end = (struct frame_end){.id = e->id,
		.outcome = e->outcome,
		.exit_code = e->exit_code,
		.signal = e->signal,
		.time_ms = e->time_ms,
		.duration_ms = e->duration_ms,
		.peak_mem_mb = e->peak_mem_mb,
		.energy_j = e->energy_j};
	memcpy(a->end.reason, e->reason, sizeof(a->end.reason));
	a->end.reason[sizeof(a->end.reason) - 1] = '\0';
	a->stage = STAGE_HELD;
	uint64_t hold_ns = e->ours ? 0 : e->signal ? c->settings.signal_hold_ns : c->settings.exit_hold_ns;
	if (!e->ours && c->ending && e->exited_ns + hold_ns >= c->ending_ns)
		interrupt_end(a);
	/* Count from now, not from the exit: if this process was stopped, a SIGTERM from that time may still be unread.
	 */
	a->release_ns = c->now_ns + (c->ending ? 0 : hold_ns);
	a->batch_ns = a->release_ns + (c->ending ? 0 : batch_wait_ns(hold_ns));
	struct frame *f = pilot_answer(c, FRAME_FREED);
	if (f)
		f->freed = e->id;
}

uint64_t pilot_next_batch_ns(const struct pilot_core *c)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_HELD && c->attempts[i].batch_ns < next)
			next = c->attempts[i].batch_ns;
	return next;
}

void pilot_release_held(struct pilot_core *c)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_HELD && c->now_ns >= c->attempts[i].release_ns)
			release_end(c, &c->attempts[i]);
}

/* Slurm, or the clock, ends this pilot. Attempts that ended just before ended for the same reason. */
void pilot_begin_ending(struct pilot_core *c)
{
	if (c->ending)
		return;
	pilot_release_held(c);
	c->ending = true;
	c->ending_ns = c->now_ns;
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct pilot_attempt *a = &c->attempts[i];
		if (a->stage != STAGE_HELD)
			continue;
		interrupt_end(a);
		a->release_ns = a->batch_ns = c->now_ns;
	}
	pilot_push(c, PILOT_END_ALL, 0);
	pilot_answer(c, FRAME_ENDING);
}

void pilot_on_end_ack(struct pilot_core *c, struct attempt_id id)
{
	struct pilot_attempt *a = find(c, id);
	if (a && a->stage == STAGE_ENDED)
		forget(c, a);
}
