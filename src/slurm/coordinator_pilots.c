/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "slurm/coordinator_private.h"

#define RETRY_NS NS_PER_S
/* Repeat a check that was not answered after this time. */
#define CHECK_NS (5 * NS_PER_S)

struct known_pilot *coordinator_find_pilot(const struct coordinator_core *c, const char *name)
{
	for (size_t i = 0; i < c->num_pilots; i++)
		if (strcmp(c->pilots[i]->name, name) == 0)
			return c->pilots[i];
	return NULL;
}

struct known_pilot *coordinator_add_pilot(struct coordinator_core *c, const char *name)
{
	struct known_pilot *p = NULL;
	if (array_reserve(c->pilots, &c->pilots_capacity, c->num_pilots + 1) == 0)
		p = calloc(1, sizeof(*p));
	if (!p) {
		c->error = -ENOMEM;
		return NULL;
	}
	snprintf(p->name, sizeof(p->name), "%s", name);
	c->pilots[c->num_pilots++] = p;
	return p;
}

static struct known_pilot *find_connection(const struct coordinator_core *c, uint64_t connection)
{
	for (size_t i = 0; connection && i < c->num_pilots; i++)
		if (c->pilots[i]->connection == connection)
			return c->pilots[i];
	return NULL;
}

static bool is_over(const struct known_pilot *p)
{
	return p->state == PILOT_STATE_DEAD || p->state == PILOT_STATE_GONE;
}

/* ---- Reports to the scheduler ---------------------------------------------------------- */

static int64_t remaining_ms(const struct coordinator_core *c, const struct known_pilot *p)
{
	if (!p->end_ns)
		return -1;
	return p->end_ns > c->now_ns ? (int64_t)((p->end_ns - c->now_ns) / NS_PER_MS) : 0;
}

void coordinator_tell_ready(struct coordinator_core *c, struct known_pilot *p)
{
	struct coordinator_queued *q;
	bool ready = p->state == PILOT_STATE_READY && p->pause_until_ns <= c->now_ns;
	if (!ready && !p->ready_told)
		return;
	p->ready_told = ready;
	q = coordinator_push(c, ready ? COORDINATOR_READY : COORDINATOR_AWAY, p, p->num_gpus * sizeof(*p->gpus));
	if (!q)
		return;
	if (p->num_gpus)
		memcpy(q->memory, p->gpus, p->num_gpus * sizeof(*p->gpus));
	q->action.gpus = (const struct frame_gpu *)(const void *)q->memory;
	q->action.num_gpus = p->num_gpus;
	q->action.cpus = p->cpus;
	q->action.host_bytes = p->host_bytes;
	q->action.remaining_ms = remaining_ms(c, p);
	if (!ready)
		snprintf(q->words, sizeof(q->words), "pilot %s on %s is %s", p->name, p->node,
			p->state == PILOT_STATE_READY ? "pausing" : pilot_state_name(p->state));
}

static void set_state(struct coordinator_core *c, struct known_pilot *p, enum pilot_state state)
{
	p->state = state;
	if (p->ready_told != (state == PILOT_STATE_READY))
		coordinator_tell_ready(c, p);
}

/* ---- Connections ----------------------------------------------------------------------- */

static void lose_connection(struct coordinator_core *c, struct known_pilot *p)
{
	p->connection = 0;
	p->answer = ANSWER_NONE;
	if (is_over(p))
		return;
	set_state(c, p, PILOT_STATE_AWAY);
	coordinator_void_synced(c, p);
}

void coordinator_on_disconnected(struct coordinator_core *c, uint64_t connection)
{
	struct known_pilot *p = find_connection(c, connection);
	if (p)
		lose_connection(c, p);
}

static void close_connection(struct coordinator_core *c, uint64_t connection)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_CLOSE, NULL, 0);
	if (q)
		q->action.connection = connection;
}

static void refuse(
	struct coordinator_core *c, const struct coordinator_event *e, enum refusal refusal, const char *words)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_SEND, NULL, 0);
	if (!q)
		return;
	q->frame = (struct frame){.kind = FRAME_REFUSE, .epoch = c->settings.epoch, .session = e->frame->session};
	q->frame.refuse.refusal = refusal;
	snprintf(q->frame.refuse.words, sizeof(q->frame.refuse.words), "%s", words);
	q->action.frame = &q->frame;
	q->action.connection = e->connection;
	close_connection(c, e->connection);
}

static void write_pilot(struct coordinator_core *c, struct known_pilot *p, enum write_kind kind)
{
	struct coordinator_queued *q = coordinator_push_write(c, kind, p, 0);
	if (!q)
		return;
	q->write.slurm_job = p->slurm_job;
	q->write.started_ms = p->started_ms;
	q->write.lease_ms = p->lease_ms;
	q->write.remaining_ms = remaining_ms(c, p);
	p->write = q->write.number;
	p->write_kind = kind;
	p->retry_ns = 0;
}

/* ---- Answers: only after the epoch was checked ----------------------------------------- */

static void check(struct coordinator_core *c)
{
	if (c->now_ns < c->next_check_ns || (c->check && c->now_ns < c->check_ns + CHECK_NS))
		return;
	bool any = false;
	for (size_t i = 0; i < c->num_pilots; i++)
		any = any || c->pilots[i]->answer != ANSWER_NONE;
	if (!any)
		return;
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_CHECK, NULL, 0);
	if (!q)
		return;
	q->action.number = c->check = ++c->checks;
	c->check_ns = c->now_ns;
	for (size_t i = 0; i < c->num_pilots; i++)
		if (c->pilots[i]->answer == ANSWER_WAITING)
			c->pilots[i]->answer = ANSWER_CHECKING;
}

static void welcome(struct coordinator_core *c, struct known_pilot *p)
{
	struct coordinator_queued *q = coordinator_push_frame(c, p, FRAME_WELCOME, 0);
	if (!q)
		return;
	q->frame.welcome = (struct frame_welcome){.lease_ms = c->settings.lease_ms,
		.silence_ms = c->settings.silence_ms,
		.heartbeat_ms = c->heartbeat_ms};
	p->acked_ns = c->now_ns;
	p->greeted = true;
	if (p->release || c->leaving)
		coordinator_push_frame(c, p, FRAME_RELEASE, 0);
	set_state(c, p, p->release || c->leaving || p->ended ? PILOT_STATE_ENDING : PILOT_STATE_READY);
	coordinator_grant_synced(c, p);
}

static void answer(struct coordinator_core *c, struct known_pilot *p)
{
	p->answer = ANSWER_NONE;
	if (p->state == PILOT_STATE_JOINING) {
		if (p->recorded)
			welcome(c, p);
		return;
	}
	struct coordinator_queued *q = coordinator_push_frame(c, p, FRAME_RENEW, 0);
	if (!q)
		return;
	q->frame.renew = (struct frame_renew){.number = p->heartbeat, .lease_ms = c->settings.lease_ms};
	p->acked_ns = c->now_ns;
}

void coordinator_on_checked(struct coordinator_core *c, uint64_t number, int result)
{
	if (number != c->check)
		return;
	c->check = 0;
	c->next_check_ns = result < 0 ? c->now_ns + RETRY_NS : 0;
	if (result == -ESTALE) {
		coordinator_supersede(c);
		return;
	}
	for (size_t i = 0; i < c->num_pilots; i++) {
		struct known_pilot *p = c->pilots[i];
		if (p->answer != ANSWER_CHECKING)
			continue;
		if (result == 0)
			answer(c, p);
		else
			p->answer = ANSWER_WAITING;
	}
	if (result == 0)
		check(c);
}

void coordinator_pilot_written(struct coordinator_core *c, uint64_t number, int result)
{
	struct known_pilot *p = NULL;
	for (size_t i = 0; i < c->num_pilots && !p; i++)
		if (c->pilots[i]->write == number)
			p = c->pilots[i];
	if (!p)
		return;
	p->write = 0;
	if (result < 0) {
		p->retry_ns = c->now_ns + RETRY_NS;
		return;
	}
	if (p->write_kind == WRITE_PILOT) {
		p->recorded = true;
		if (p->state == PILOT_STATE_JOINING)
			p->answer = ANSWER_WAITING;
		return;
	}
	p->state = PILOT_STATE_GONE;
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_GONE, p, 0);
	if (!q)
		return;
	q->action.proof = p->proof;
	q->action.result = p->ended;
	if (p->proof)
		snprintf(q->words, sizeof(q->words), "pilot %s on %s is dead (%s)", p->name, p->node,
			death_proof_name(p->proof));
}

/* ---- Frames ---------------------------------------------------------------------------- */

static void take_remaining(struct coordinator_core *c, struct known_pilot *p, int64_t ms)
{
	p->end_ns = ms >= 0 ? c->now_ns + (uint64_t)ms * NS_PER_MS : 0;
}

static void take_gpus(struct coordinator_core *c, struct known_pilot *p, const struct frame_gpu *gpus, size_t count)
{
	if (count != p->num_gpus) {
		struct frame_gpu *larger = realloc(p->gpus, count * sizeof(*gpus) + 1);
		if (!larger) {
			c->error = -ENOMEM;
			return;
		}
		p->gpus = larger;
		p->num_gpus = count;
	}
	if (count)
		memcpy(p->gpus, gpus, count * sizeof(*gpus));
}

/* NULL: the hello was answered or ignored. */
static struct known_pilot *admit(struct coordinator_core *c, const struct coordinator_event *e)
{
	const struct frame_hello *h = &e->frame->hello;
	struct known_pilot *p = coordinator_find_pilot(c, h->pilot);
	if (h->version != FRAME_VERSION) {
		refuse(c, e, REFUSAL_VERSION, "coordinator and pilot are different versions of gpuq");
		return NULL;
	}
	if (h->last_epoch > c->settings.epoch) {
		coordinator_supersede(c);
		return NULL;
	}
	if (p && is_over(p)) {
		refuse(c, e, REFUSAL_DEAD, "this pilot was declared dead, and its jobs were reassigned");
		return NULL;
	}
	if (p && e->frame->session <= p->session) {
		close_connection(c, e->connection);
		return NULL;
	}
	/* The pilot's record was synced before its first welcome, so an earlier coordinator has declared it dead. */
	if (!p && h->last_epoch) {
		refuse(c, e, REFUSAL_DEAD, "the journal no longer contains this pilot");
		return NULL;
	}
	if (!p && c->leaving) {
		refuse(c, e, REFUSAL_UNWANTED, "the queue has ended");
		return NULL;
	}
	return p ? p : coordinator_add_pilot(c, h->pilot);
}

static void on_hello(struct coordinator_core *c, const struct coordinator_event *e)
{
	const struct frame_hello *h = &e->frame->hello;
	struct known_pilot *p = admit(c, e);
	if (!p)
		return;
	if (p->connection) {
		close_connection(c, p->connection);
		lose_connection(c, p);
	}
	p->connection = e->connection;
	p->session = e->frame->session;
	p->heard_ns = c->now_ns;
	if (!p->acked_ns)
		p->acked_ns = c->now_ns;
	memcpy(p->node, h->node, sizeof(p->node));
	p->node[sizeof(p->node) - 1] = '\0';
	p->slurm_job = h->slurm_job;
	p->started_ms = h->started_ms;
	p->cpus = h->cpus;
	p->host_bytes = h->host_bytes;
	if (h->lease_ms > p->lease_ms)
		p->lease_ms = h->lease_ms;
	if (c->settings.lease_ms > p->lease_ms)
		p->lease_ms = c->settings.lease_ms;
	take_gpus(c, p, h->gpus, h->num_gpus);
	take_remaining(c, p, h->remaining_ms);
	coordinator_reconcile(c, p, h);
	p->state = PILOT_STATE_JOINING;
	p->answer = ANSWER_NONE;
	if (h->lock_is_free) {
		struct coordinator_queued *q = coordinator_push(c, COORDINATOR_SAY, p, 0);
		if (q)
			snprintf(q->words, sizeof(q->words),
				"locks do not work between this host and %s: the lock of this coordinator is not visible there",
				p->node);
	}
	if (p->recorded)
		p->answer = ANSWER_WAITING;
	else if (!p->write)
		write_pilot(c, p, WRITE_PILOT);
}

static void on_heartbeat(struct coordinator_core *c, struct known_pilot *p, const struct frame_heartbeat *h)
{
	take_remaining(c, p, h->remaining_ms);
	if (h->num_gpus == p->num_gpus && h->num_gpus)
		take_gpus(c, p, h->gpus, h->num_gpus);
	/* A later heartbeat needs a later check. */
	p->heartbeat = h->number;
	p->answer = ANSWER_WAITING;
	if (p->state == PILOT_STATE_READY && h->num_gpus)
		coordinator_tell_ready(c, p);
}

static void on_bye(struct coordinator_core *c, struct known_pilot *p)
{
	uint64_t connection = p->connection;
	bool idle = coordinator_void_granted(c, p);
	lose_connection(c, p);
	close_connection(c, connection);
	if (!idle)
		return; /* the pilot contradicts itself: wait for proof */
	p->proof = PROOF_NONE;
	p->state = PILOT_STATE_DEAD;
	p->outbox_done = true;
}

static void on_ending(struct coordinator_core *c, struct known_pilot *p)
{
	p->ended = true;
	set_state(c, p, PILOT_STATE_ENDING);
}

void coordinator_on_frame(struct coordinator_core *c, const struct coordinator_event *e)
{
	const struct frame *f = e->frame;
	if (f->kind == FRAME_HELLO) {
		on_hello(c, e);
		return;
	}
	struct known_pilot *p = find_connection(c, e->connection);
	if (!p || f->session != p->session || f->epoch != c->settings.epoch || p->state == PILOT_STATE_JOINING)
		return;
	p->heard_ns = c->now_ns;
	switch (f->kind) {
	case FRAME_BEGUN:
		coordinator_on_begun(c, p, &f->begun);
		break;
	case FRAME_REJECT:
		coordinator_on_reject(c, p, &f->reject);
		coordinator_tell_ready(c, p);
		break;
	case FRAME_FREED:
		coordinator_on_freed(c, p, f->freed);
		break;
	case FRAME_END:
		coordinator_on_end(c, p, &f->end);
		break;
	case FRAME_HEARTBEAT:
		on_heartbeat(c, p, &f->heartbeat);
		break;
	case FRAME_ENDING:
		on_ending(c, p);
		break;
	case FRAME_BYE:
		on_bye(c, p);
		break;
	default:
		break;
	}
}

void coordinator_release(struct coordinator_core *c, struct known_pilot *p)
{
	if (is_over(p) || p->release)
		return;
	p->release = true;
	if (p->connection && p->state != PILOT_STATE_JOINING) {
		coordinator_push_frame(c, p, FRAME_RELEASE, 0);
		set_state(c, p, PILOT_STATE_ENDING);
	}
}

void coordinator_step_pilots(struct coordinator_core *c)
{
	for (size_t i = 0; i < c->num_pilots; i++) {
		struct known_pilot *p = c->pilots[i];
		uint64_t silence = (uint64_t)c->settings.silence_ms * NS_PER_MS;
		/* The pilot waits for its record and sends nothing before the welcome. */
		if (p->state == PILOT_STATE_JOINING && (p->write || p->retry_ns))
			p->heard_ns = c->now_ns;
		if (p->connection && c->now_ns >= p->heard_ns + silence) {
			close_connection(c, p->connection);
			lose_connection(c, p);
		}
		if (p->retry_ns && c->now_ns >= p->retry_ns)
			write_pilot(c, p, p->write_kind);
		if (p->state == PILOT_STATE_READY && !p->ready_told && p->pause_until_ns <= c->now_ns)
			coordinator_tell_ready(c, p);
		/* All its attempts have ended in the journal. */
		if (p->state == PILOT_STATE_DEAD && p->outbox_done && !p->write && !p->retry_ns &&
			coordinator_count_attempts(c, p) == 0)
			write_pilot(c, p, WRITE_PILOT_GONE);
	}
	check(c);
}
