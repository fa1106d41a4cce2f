/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "slurm/coordinator_private.h"
#include "slurm/mutant.h"

#define RETRY_NS NS_PER_S
/* How long a pilot that could not start a process gets no jobs. */
#define PAUSE_NS (10 * NS_PER_S)

static bool same(struct attempt_id a, struct attempt_id b)
{
	return a.job == b.job && a.attempt == b.attempt;
}

static struct granted_attempt *find(const struct coordinator_core *c, struct attempt_id id)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (same(c->attempts[i]->id, id))
			return c->attempts[i];
	return NULL;
}

static struct granted_attempt *add(struct coordinator_core *c, struct known_pilot *p, struct attempt_id id)
{
	struct granted_attempt *a = NULL;
	if (array_reserve(c->attempts, &c->attempts_capacity, c->num_attempts + 1) == 0)
		a = calloc(1, sizeof(*a));
	if (!a) {
		c->error = -ENOMEM;
		return NULL;
	}
	a->id = id;
	a->pilot = p;
	c->attempts[c->num_attempts++] = a;
	return a;
}

static void free_attempt(struct granted_attempt *a)
{
	free(a->gpus);
	free(a->order);
	free(a);
}

static void forget(struct coordinator_core *c, struct granted_attempt *a)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i] == a)
			c->attempts[i] = c->attempts[--c->num_attempts];
	free_attempt(a);
}

void coordinator_finish_attempts(struct coordinator_core *c)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		free_attempt(c->attempts[i]);
	free(c->attempts);
}

size_t coordinator_count_attempts(const struct coordinator_core *c, const struct known_pilot *p)
{
	size_t count = 0;
	for (size_t i = 0; i < c->num_attempts; i++)
		count += c->attempts[i]->pilot == p;
	return count;
}

int coordinator_restore(struct coordinator_core *c, struct known_pilot *p, const struct restored_attempt *r)
{
	struct granted_attempt *a = add(c, p, r->id);
	if (!a)
		return -ENOMEM;
	a->stage = ATTEMPT_RUNNING;
	a->losses = r->losses;
	return 0;
}

/* ---- Writes ---------------------------------------------------------------------------- */

static void push_write(struct coordinator_core *c, struct granted_attempt *a)
{
	struct coordinator_queued *q =
		coordinator_push_write(c, a->write_kind, a->pilot, a->num_gpus * sizeof(*a->gpus));
	if (!q)
		return;
	if (a->num_gpus)
		memcpy(q->memory, a->gpus, a->num_gpus * sizeof(*a->gpus));
	q->end = a->end;
	q->write.id = a->id;
	q->write.end = &q->end;
	q->write.hold = a->write_kind == WRITE_LOST && a->losses + 1 >= COORDINATOR_LOSSES;
	q->write.gpus = (const int *)(const void *)q->memory;
	q->write.num_gpus = a->num_gpus;
	a->write = q->write.number;
	a->retry_ns = 0;
}

static void close_with(struct coordinator_core *c, struct granted_attempt *a, enum write_kind kind)
{
	a->stage = ATTEMPT_CLOSING;
	a->write_kind = kind;
	push_write(c, a);
}

static void close_with_end(struct coordinator_core *c, struct granted_attempt *a, const struct frame_end *end)
{
	a->end = *end;
	close_with(c, a, WRITE_END);
}

static void close_as_lost(struct coordinator_core *c, struct granted_attempt *a)
{
	a->end = (struct frame_end){.id = a->id,
		.outcome = OUTCOME_INTERRUPTED,
		.exit_code = -1,
		.duration_ms = -1,
		.peak_mem_mb = -1,
		.reason = REASON_PILOT_LOST};
	close_with(c, a, WRITE_LOST);
}

static bool is_over(const struct coordinator_core *c, struct attempt_id id)
{
	const struct attempt_entry *e = attempt_table_find(&c->ended, id.job);
	return e && e->attempt >= id.attempt;
}

static void mark_over(struct coordinator_core *c, struct attempt_id id)
{
	struct attempt_entry *e = attempt_table_add(&c->ended, id.job);
	if (!e)
		c->error = -ENOMEM;
	else if (id.attempt > e->attempt)
		e->attempt = id.attempt;
}

static bool may_send(const struct known_pilot *p)
{
	return p->connection && (p->state == PILOT_STATE_READY || p->state == PILOT_STATE_ENDING);
}

static void send_ack(struct coordinator_core *c, const struct known_pilot *p, struct attempt_id id)
{
	struct coordinator_queued *q = may_send(p) ? coordinator_push_frame(c, p, FRAME_END_ACK, 0) : NULL;
	if (q)
		q->frame.end_ack = id;
}

static void send_cancel(
	struct coordinator_core *c, const struct known_pilot *p, struct attempt_id id, enum cancel_mode mode)
{
	struct coordinator_queued *q = may_send(p) ? coordinator_push_frame(c, p, FRAME_CANCEL, 0) : NULL;
	if (q)
		q->frame.cancel = (struct frame_cancel){.id = id, .mode = mode};
}

static void send_grant(struct coordinator_core *c, struct granted_attempt *a)
{
	size_t gpus_size = a->num_gpus * sizeof(*a->gpus);
	struct coordinator_queued *q = coordinator_push_frame(c, a->pilot, FRAME_GRANT, gpus_size + a->order_size);
	if (!q)
		return;
	if (gpus_size)
		memcpy(q->memory, a->gpus, gpus_size);
	if (a->order_size)
		memcpy(q->memory + gpus_size, a->order, a->order_size);
	q->frame.grant = (struct frame_grant){.id = a->id,
		.gpus = (const int *)(const void *)q->memory,
		.num_gpus = a->num_gpus,
		.order = q->memory + gpus_size,
		.order_size = a->order_size};
	a->stage = ATTEMPT_GRANTED;
	free(a->order);
	a->order = NULL;
	a->order_size = 0;
}

/* The start is synced. */
static void on_start_written(struct coordinator_core *c, struct granted_attempt *a)
{
	if (a->stage != ATTEMPT_WRITING) /* a mutant has granted it already */
		return;
	if (a->cancel)
		close_with(c, a, WRITE_VOID);
	else if (a->pilot->state == PILOT_STATE_READY)
		send_grant(c, a);
	else if (a->pilot->state == PILOT_STATE_JOINING)
		a->stage = ATTEMPT_SYNCED;
	else
		close_with(c, a, WRITE_VOID);
}

static void not_started(struct coordinator_core *c, struct attempt_id id, int result)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_NOT_STARTED, NULL, 0);
	if (!q)
		return;
	q->action.id = id;
	q->action.result = result;
}

static void on_start_failed(struct coordinator_core *c, struct granted_attempt *a, int result)
{
	if (result == -ECANCELED) {
		not_started(c, a->id, result);
		forget(c, a);
		return;
	}
	/* The line may still be in the journal; its grant is never sent. */
	a->stage = ATTEMPT_CLOSING;
	a->write_kind = WRITE_VOID;
	a->write = 0;
	a->retry_ns = c->now_ns + RETRY_NS;
}

bool coordinator_attempt_written(struct coordinator_core *c, uint64_t number, int result)
{
	struct granted_attempt *a = NULL;
	for (size_t i = 0; i < c->num_attempts && !a; i++)
		if (c->attempts[i]->write == number)
			a = c->attempts[i];
	if (!a)
		return false;
	a->write = 0;
	if (a->write_kind == WRITE_START && result < 0)
		on_start_failed(c, a, result);
	else if (a->write_kind == WRITE_START)
		on_start_written(c, a);
	else if (result < 0)
		a->retry_ns = c->now_ns + RETRY_NS;
	else {
		mark_over(c, a->id);
		if (a->write_kind == WRITE_END)
			send_ack(c, a->pilot, a->id);
		forget(c, a);
	}
	return true;
}

void coordinator_step_attempts(struct coordinator_core *c)
{
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		if (a->retry_ns && c->now_ns >= a->retry_ns)
			push_write(c, a);
	}
}

/* ---- Starts ---------------------------------------------------------------------------- */

static int may_start(const struct coordinator_core *c, const struct known_pilot *p, const struct coordinator_start *s)
{
	if (!c->recovered || c->leaving)
		return -EAGAIN;
	if (!p || p->state != PILOT_STATE_READY || p->pause_until_ns > c->now_ns)
		return -EHOSTDOWN;
	if (s->needed_ms > 0 && p->end_ns && c->now_ns + (uint64_t)s->needed_ms * NS_PER_MS > p->end_ns)
		return -ETIME;
	if (find(c, s->id) || is_over(c, s->id))
		return -EEXIST;
	return 0;
}

void coordinator_start(struct coordinator_core *c, const struct coordinator_start *s)
{
	struct known_pilot *p = coordinator_find_pilot(c, s->pilot);
	int r = may_start(c, p, s);
	if (r < 0) {
		not_started(c, s->id, r);
		return;
	}
	struct granted_attempt *a = add(c, p, s->id);
	if (!a)
		return;
	a->losses = s->losses;
	a->gpus = malloc(s->num_gpus * sizeof(*a->gpus) + 1);
	a->order = malloc(s->order_size + 1);
	if (!a->gpus || !a->order) {
		c->error = -ENOMEM;
		return;
	}
	if (s->num_gpus)
		memcpy(a->gpus, s->gpus, s->num_gpus * sizeof(*a->gpus));
	if (s->order_size)
		memcpy(a->order, s->order, s->order_size);
	a->num_gpus = s->num_gpus;
	a->order_size = s->order_size;
	a->stage = ATTEMPT_WRITING;
	a->write_kind = WRITE_START;
	push_write(c, a);
	if (slurm_mutant_is(MUTANT_NO_SYNC))
		send_grant(c, a);
}

void coordinator_cancel(struct coordinator_core *c, struct attempt_id id, enum cancel_mode mode)
{
	struct granted_attempt *a = find(c, id);
	if (!a || a->stage == ATTEMPT_CLOSING)
		return;
	a->cancel = mode;
	if (a->stage == ATTEMPT_SYNCED)
		close_with(c, a, WRITE_VOID);
	else if (a->stage != ATTEMPT_WRITING)
		send_cancel(c, a->pilot, id, mode);
}

void coordinator_grant_synced(struct coordinator_core *c, struct known_pilot *p)
{
	for (size_t i = 0; i < p->num_strays; i++)
		send_cancel(c, p, p->strays[i], CANCEL_DISCARD);
	p->num_strays = 0;
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		if (a->pilot != p)
			continue;
		if (a->stage == ATTEMPT_SYNCED && p->state == PILOT_STATE_READY)
			send_grant(c, a);
		else if (a->stage == ATTEMPT_SYNCED)
			close_with(c, a, WRITE_VOID);
		else if (a->stage == ATTEMPT_RUNNING && a->cancel)
			send_cancel(c, p, a->id, a->cancel);
	}
}

void coordinator_void_synced(struct coordinator_core *c, struct known_pilot *p)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i]->pilot == p && c->attempts[i]->stage == ATTEMPT_SYNCED)
			close_with(c, c->attempts[i], WRITE_VOID);
}

/* ---- Frames of pilots ------------------------------------------------------------------ */

static void began(struct coordinator_core *c, struct granted_attempt *a, int64_t pid)
{
	a->stage = ATTEMPT_RUNNING;
	a->begun = true;
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_BEGAN, a->pilot, 0);
	if (!q)
		return;
	q->action.id = a->id;
	q->action.pid = pid;
}

void coordinator_on_begun(struct coordinator_core *c, struct known_pilot *p, const struct frame_begun *f)
{
	struct granted_attempt *a = find(c, f->id);
	if (a && a->pilot == p && a->stage <= ATTEMPT_RUNNING)
		began(c, a, f->pid);
}

void coordinator_on_reject(struct coordinator_core *c, struct known_pilot *p, const struct frame_reject *f)
{
	struct granted_attempt *a = find(c, f->id);
	if (!a || a->pilot != p || a->begun || a->stage == ATTEMPT_CLOSING)
		return;
	if (f->rejection == REJECTION_START) {
		struct coordinator_queued *q = coordinator_push(c, COORDINATOR_SAY, p, 0);
		if (q)
			snprintf(q->words, sizeof(q->words), "pilot %.40s cannot start a job: %.180s", p->name,
				f->words);
		p->pause_until_ns = c->now_ns + PAUSE_NS;
	}
	close_with(c, a, WRITE_VOID);
}

void coordinator_on_freed(struct coordinator_core *c, const struct known_pilot *p, struct attempt_id id)
{
	const struct granted_attempt *a = find(c, id);
	struct coordinator_queued *q = a && a->pilot == p ? coordinator_push(c, COORDINATOR_FREED, p, 0) : NULL;
	if (q)
		q->action.id = id;
}

void coordinator_on_end(struct coordinator_core *c, struct known_pilot *p, const struct frame_end *end)
{
	struct granted_attempt *a = find(c, end->id);
	if (!a && is_over(c, end->id)) {
		send_ack(c, p, end->id);
		return;
	}
	/* An earlier coordinator may already have written this end to the journal: then the second one is ignored. */
	if (!a)
		a = add(c, p, end->id);
	if (a && a->pilot == p && a->stage != ATTEMPT_CLOSING)
		close_with_end(c, a, end);
}

static const struct known_attempt *listed(const struct frame_hello *h, struct attempt_id id)
{
	for (size_t i = 0; i < h->num_attempts; i++)
		if (same(h->attempts[i].id, id))
			return &h->attempts[i];
	return NULL;
}

/* An attempt that the pilot does not list and that was never reported as begun was not begun. The older session,
 * through which its grant could still arrive, is closed. */
void coordinator_reconcile(struct coordinator_core *c, struct known_pilot *p, const struct frame_hello *hello)
{
	p->num_strays = 0;
	for (size_t i = 0; i < hello->num_attempts; i++) {
		const struct granted_attempt *a = find(c, hello->attempts[i].id);
		if ((a && a->pilot == p) || hello->attempts[i].state != KNOWN_RUNNING)
			continue;
		if (array_reserve(p->strays, &p->strays_capacity, p->num_strays + 1) < 0)
			c->error = -ENOMEM;
		else
			p->strays[p->num_strays++] = hello->attempts[i].id;
	}
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		if (a->pilot != p || (a->stage != ATTEMPT_GRANTED && a->stage != ATTEMPT_RUNNING))
			continue;
		if (listed(hello, a->id))
			began(c, a, 0);
		else if (!a->begun)
			close_with(c, a, WRITE_VOID);
	}
}

bool coordinator_void_granted(struct coordinator_core *c, struct known_pilot *p)
{
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		if (a->pilot == p && a->begun && a->stage == ATTEMPT_RUNNING)
			return false;
	}
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		if (a->pilot == p && a->stage >= ATTEMPT_SYNCED && a->stage <= ATTEMPT_RUNNING)
			close_with(c, a, WRITE_VOID);
	}
	return true;
}

void coordinator_lose_attempts(
	struct coordinator_core *c, struct known_pilot *p, const struct frame_end *ends, size_t num_ends)
{
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct granted_attempt *a = c->attempts[i];
		const struct frame_end *end = NULL;
		if (a->pilot != p || (a->stage != ATTEMPT_GRANTED && a->stage != ATTEMPT_RUNNING))
			continue;
		for (size_t k = 0; k < num_ends && !end; k++)
			if (same(ends[k].id, a->id))
				end = &ends[k];
		if (end)
			close_with_end(c, a, end);
		else
			close_as_lost(c, a);
	}
}
