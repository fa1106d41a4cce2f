/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/coordinator_private.h"

#define LEASE_MS      900000
#define SILENCE_MS    15000
#define MIN_MARGIN_MS 2000
/* Within this time, a missing list of pilots is normal. */
#define FIRST_LIST_NS (10 * NS_PER_S)

/* ---- Actions --------------------------------------------------------------------------- */

struct coordinator_queued *coordinator_push(
	struct coordinator_core *c, enum coordinator_action_kind kind, const struct known_pilot *p, size_t memory)
{
	struct coordinator_queued *q = calloc(1, sizeof(*q) + memory);
	if (!q) {
		c->error = -ENOMEM;
		return NULL;
	}
	q->action.kind = kind;
	q->action.remaining_ms = -1;
	if (p) {
		memcpy(q->name, p->name, sizeof(q->name));
		memcpy(q->node, p->node, sizeof(q->node));
		q->action.pilot = q->name;
		q->action.node = q->node;
		q->action.connection = p->connection;
	}
	q->action.words = q->words;
	*c->last = q;
	c->last = &q->next;
	return q;
}

struct coordinator_queued *coordinator_push_frame(
	struct coordinator_core *c, const struct known_pilot *p, enum frame_kind kind, size_t memory)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_SEND, p, memory);
	if (!q)
		return NULL;
	q->frame = (struct frame){.kind = kind, .epoch = c->settings.epoch, .session = p->session};
	q->action.frame = &q->frame;
	return q;
}

struct coordinator_queued *coordinator_push_write(
	struct coordinator_core *c, enum write_kind kind, const struct known_pilot *p, size_t memory)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_WRITE, p, memory);
	if (!q)
		return NULL;
	q->write = (struct coordinator_write){
		.kind = kind, .number = ++c->writes, .pilot = q->name, .node = q->node, .remaining_ms = -1};
	q->action.write = &q->write;
	q->action.number = q->write.number;
	return q;
}

bool coordinator_core_next(struct coordinator_core *c, struct coordinator_action *ret)
{
	struct coordinator_queued *q = c->first;
	if (!q)
		return false;
	c->first = q->next;
	if (!c->first)
		c->last = &c->first;
	q->next = c->given;
	c->given = q;
	*ret = q->action;
	return true;
}

static void drop_actions(struct coordinator_queued *q)
{
	while (q) {
		struct coordinator_queued *next = q->next;
		free(q);
		q = next;
	}
}

/* Drops the actions of this call that were not executed yet: this coordinator has lost the queue. */
void coordinator_supersede(struct coordinator_core *c)
{
	if (c->superseded)
		return;
	drop_actions(c->first);
	c->first = NULL;
	c->last = &c->first;
	coordinator_push(c, COORDINATOR_SUPERSEDED, NULL, 0);
	c->superseded = true;
}

/* ---- Recovery -------------------------------------------------------------------------- */

static int64_t max_lease_ms(const struct coordinator_core *c)
{
	return c->settings.max_lease_ms > c->settings.lease_ms ? c->settings.max_lease_ms : c->settings.lease_ms;
}

/* The margin for this pilot's lease, which may be longer than the leases granted now. */
uint64_t coordinator_margin_ns(const struct coordinator_core *c, const struct known_pilot *p)
{
	int64_t lease = p ? p->lease_ms : max_lease_ms(c);
	int64_t margin = c->settings.margin_ms ? c->settings.margin_ms : lease / 20;
	return (uint64_t)(margin > MIN_MARGIN_MS ? margin : MIN_MARGIN_MS) * NS_PER_MS;
}

/* After this time, no pilot that has not connected can be alive, whatever the journal and Slurm report. */
static uint64_t all_expired_ns(const struct coordinator_core *c)
{
	return c->begin_ns + (uint64_t)max_lease_ms(c) * NS_PER_MS + coordinator_margin_ns(c, NULL);
}

static const struct known_pilot *first_expected(const struct coordinator_core *c)
{
	for (size_t i = 0; i < c->num_pilots; i++) {
		const struct known_pilot *p = c->pilots[i];
		if (p->restored && !p->greeted && p->state != PILOT_STATE_DEAD && p->state != PILOT_STATE_GONE)
			return p;
	}
	return NULL;
}

static void step_recovery(struct coordinator_core *c)
{
	bool known = c->settings.epoch == 1 || c->listed_all || c->now_ns >= all_expired_ns(c);
	if (c->recovered || !known || first_expected(c))
		return;
	c->recovered = true;
	coordinator_push(c, COORDINATOR_RECOVERED, NULL, 0);
}

bool coordinator_core_is_recovered(const struct coordinator_core *c)
{
	return c->recovered;
}

const char *coordinator_core_waits_for(const struct coordinator_core *c, uint64_t now_ns, char words[FRAME_WORDS_ROOM])
{
	const struct known_pilot *p = first_expected(c);
	*words = '\0';
	if (c->recovered)
		return words;
	uint64_t until = p ? coordinator_lease_proof_ns(c, p) : all_expired_ns(c);
	unsigned long long s = until > now_ns ? (until - now_ns) / NS_PER_S : 0;
	if (p)
		snprintf(words, FRAME_WORDS_ROOM,
			"pilot %.40s on %.40s has not connected yet (waiting at most %llu s more)", p->name,
			*p->node ? p->node : "an unknown node", s);
	else if (now_ns - c->begin_ns < FIRST_LIST_NS)
		snprintf(words, FRAME_WORDS_ROOM, "asking Slurm for pilots of an earlier run");
	else
		snprintf(words, FRAME_WORDS_ROOM,
			"Slurm does not report which pilots of an earlier run are alive (waiting at most %llu s more)",
			s);
	return words;
}

/* ---- Events ---------------------------------------------------------------------------- */

static void leave(struct coordinator_core *c)
{
	c->leaving = true;
	for (size_t i = 0; i < c->num_pilots; i++)
		coordinator_release(c, c->pilots[i]);
}

static void handle(struct coordinator_core *c, const struct coordinator_event *e)
{
	struct known_pilot *p;
	switch (e->kind) {
	case COORDINATOR_TICK:
		break;
	case COORDINATOR_FRAME:
		coordinator_on_frame(c, e);
		break;
	case COORDINATOR_DISCONNECTED:
		coordinator_on_disconnected(c, e->connection);
		break;
	case COORDINATOR_START:
		coordinator_start(c, &e->start);
		break;
	case COORDINATOR_CANCEL:
		coordinator_cancel(c, e->id, e->mode);
		break;
	case COORDINATOR_WRITTEN:
		if (e->result == -ESTALE)
			coordinator_supersede(c);
		else if (!coordinator_attempt_written(c, e->number, e->result))
			coordinator_pilot_written(c, e->number, e->result);
		break;
	case COORDINATOR_CHECKED:
		coordinator_on_checked(c, e->number, e->result);
		break;
	case COORDINATOR_OUTBOX:
		coordinator_on_outbox(c, e);
		break;
	case COORDINATOR_LISTED:
		coordinator_on_listed(c, e->listing);
		break;
	case COORDINATOR_RELEASE_PILOT:
		p = coordinator_find_pilot(c, e->pilot);
		if (p)
			coordinator_release(c, p);
		break;
	case COORDINATOR_LEAVE:
		leave(c);
		break;
	}
}

static void step(struct coordinator_core *c)
{
	coordinator_step_pilots(c);
	coordinator_step_deaths(c);
	coordinator_step_attempts(c);
	step_recovery(c);
}

int coordinator_core_handle(struct coordinator_core *c, uint64_t now_ns, const struct coordinator_event *event)
{
	drop_actions(c->given);
	c->given = NULL;
	if (now_ns > c->now_ns)
		c->now_ns = now_ns;
	if (c->superseded)
		return c->error;
	handle(c, event);
	if (!c->superseded)
		step(c);
	return c->error;
}

uint64_t coordinator_core_wake_ns(const struct coordinator_core *c)
{
	uint64_t wake = c->next_list_ns ? c->next_list_ns : UINT64_MAX;
#define SOONER(ns) wake = (ns) < wake ? (ns) : wake
	if (c->superseded)
		return UINT64_MAX;
	for (size_t i = 0; i < c->num_pilots; i++) {
		const struct known_pilot *p = c->pilots[i];
		uint64_t fence = coordinator_fence_ns(c, p);
		uint64_t proof = coordinator_lease_proof_ns(c, p);
		if (p->end_ns && p->end_ns + coordinator_margin_ns(c, p) < proof)
			proof = p->end_ns + coordinator_margin_ns(c, p);
		if (p->connection)
			SOONER(p->heard_ns + (uint64_t)c->settings.silence_ms * NS_PER_MS);
		else if (p->state == PILOT_STATE_AWAY || p->state == PILOT_STATE_EXPECTED)
			SOONER(proof > fence ? proof : fence);
		else if (p->state == PILOT_STATE_DEAD && !p->outbox_done)
			SOONER(p->next_outbox_ns);
		if (p->retry_ns)
			SOONER(p->retry_ns);
		if (p->pause_until_ns > c->now_ns)
			SOONER(p->pause_until_ns);
		if (p->answer == ANSWER_WAITING && c->next_check_ns)
			SOONER(c->next_check_ns);
	}
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i]->retry_ns)
			SOONER(c->attempts[i]->retry_ns);
	if (!c->recovered)
		SOONER(all_expired_ns(c));
#undef SOONER
	return wake;
}

/* ---- Creation -------------------------------------------------------------------------- */

int coordinator_core_create(const struct coordinator_settings *settings, struct coordinator_core **ret)
{
	struct coordinator_core *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->settings = *settings;
	c->last = &c->first;
	if (!c->settings.lease_ms)
		c->settings.lease_ms = LEASE_MS;
	if (!c->settings.silence_ms)
		c->settings.silence_ms = SILENCE_MS;
	c->heartbeat_ms = c->settings.silence_ms / 5;
	if (c->settings.lease_ms / 10 < c->heartbeat_ms)
		c->heartbeat_ms = c->settings.lease_ms / 10;
	if (c->heartbeat_ms < 1)
		c->heartbeat_ms = 1;
	*ret = c;
	return 0;
}

void coordinator_core_destroy(struct coordinator_core *c)
{
	if (!c)
		return;
	drop_actions(c->first);
	drop_actions(c->given);
	coordinator_finish_attempts(c);
	for (size_t i = 0; i < c->num_pilots; i++) {
		free(c->pilots[i]->gpus);
		free(c->pilots[i]->strays);
		free(c->pilots[i]);
	}
	attempt_table_finish(&c->ended);
	free(c->pilots);
	free(c);
}

int coordinator_core_restore_pilot(struct coordinator_core *c, const struct restored_pilot *pilot)
{
	struct known_pilot *p = coordinator_find_pilot(c, pilot->name);
	if (!p)
		p = coordinator_add_pilot(c, pilot->name);
	if (!p)
		return -ENOMEM;
	snprintf(p->node, sizeof(p->node), "%s", pilot->node ? pilot->node : "");
	p->slurm_job = pilot->slurm_job;
	p->started_ms = pilot->started_ms;
	if (pilot->lease_ms > p->lease_ms)
		p->lease_ms = pilot->lease_ms;
	return 0;
}

int coordinator_core_restore_attempt(struct coordinator_core *c, const struct restored_attempt *attempt)
{
	struct known_pilot *p = coordinator_find_pilot(c, attempt->pilot);
	if (!p)
		p = coordinator_add_pilot(c, attempt->pilot);
	return p ? coordinator_restore(c, p, attempt) : -ENOMEM;
}

int coordinator_core_begin(struct coordinator_core *c, uint64_t now_ns)
{
	c->now_ns = c->begin_ns = now_ns;
	c->begun = true;
	c->next_list_ns = now_ns;
	for (size_t i = 0; i < c->num_pilots; i++) {
		/* An older coordinator may have answered this pilot until just now. */
		c->pilots[i]->acked_ns = now_ns;
		c->pilots[i]->restored = true;
		if (c->pilots[i]->lease_ms < max_lease_ms(c))
			c->pilots[i]->lease_ms = max_lease_ms(c);
	}
	step(c);
	return c->error;
}

/* ---- For people ------------------------------------------------------------------------ */

size_t coordinator_core_num_pilots(const struct coordinator_core *c)
{
	size_t count = 0;
	for (size_t i = 0; i < c->num_pilots; i++)
		count += c->pilots[i]->state != PILOT_STATE_GONE;
	return count;
}

size_t coordinator_core_num_attempts(const struct coordinator_core *c)
{
	return c->num_attempts;
}

bool coordinator_core_pilot(const struct coordinator_core *c, size_t index, struct pilot_info *ret)
{
	for (size_t i = 0; i < c->num_pilots; i++) {
		const struct known_pilot *p = c->pilots[i];
		if (p->state == PILOT_STATE_GONE || index-- > 0)
			continue;
		*ret = (struct pilot_info){.name = p->name,
			.node = p->node,
			.slurm_job = p->slurm_job,
			.state = p->state,
			.heard_ns = p->heard_ns,
			.dead_ns = coordinator_lease_proof_ns(c, p),
			.num_attempts = coordinator_count_attempts(c, p),
			.num_gpus = p->num_gpus};
		return true;
	}
	return false;
}
