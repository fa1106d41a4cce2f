/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/keeper/allocation.h"
#include "slurm/mutant.h"
#include "slurm/pilot_private.h"

#define GRACE_NS   (10 * NS_PER_S)
#define CONNECT_NS NS_PER_S
#define JOIN_NS    (600 * NS_PER_S)

/* ---- Actions --------------------------------------------------------------------------- */

struct queued_action *pilot_push(struct pilot_core *c, enum pilot_action_kind kind, size_t memory)
{
	struct queued_action *q = calloc(1, sizeof(*q) + memory);
	if (!q) {
		c->error = -ENOMEM;
		return NULL;
	}
	q->action.kind = kind;
	q->action.connection = c->connection;
	*c->last = q;
	c->last = &q->next;
	return q;
}

struct frame *pilot_push_frame(struct pilot_core *c, enum frame_kind kind, size_t memory)
{
	struct queued_action *q = pilot_push(c, PILOT_SEND, memory);
	if (!q)
		return NULL;
	q->frame = (struct frame){.kind = kind, .epoch = c->epoch, .session = c->session};
	q->action.frame = &q->frame;
	return &q->frame;
}

/* Sends only in a welcomed session; without one, the next hello conveys the state. */
struct frame *pilot_answer(struct pilot_core *c, enum frame_kind kind)
{
	return c->link == LINK_WELCOMED ? pilot_push_frame(c, kind, 0) : NULL;
}

static void drop_actions(struct queued_action *q)
{
	while (q) {
		struct queued_action *next = q->next;
		free(q);
		q = next;
	}
}

bool pilot_core_next(struct pilot_core *c, struct pilot_action *ret)
{
	struct queued_action *q = c->first;
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

static void leave(struct pilot_core *c, const char *words)
{
	struct queued_action *q = c->left ? NULL : pilot_push(c, PILOT_LEAVE, 0);
	if (q)
		q->action.words = words;
	c->left = true;
}

/* ---- The lease ------------------------------------------------------------------------- */

static void arm(struct pilot_core *c)
{
	uint64_t deadline = c->lease_end_ns, until = c->settings.until_ns;
	if (until && (!deadline || until < deadline))
		deadline = until;
	if (!deadline || deadline == c->armed_ns || slurm_mutant_is(MUTANT_NO_KILL))
		return;
	struct queued_action *q = pilot_push(c, PILOT_ARM, 0);
	if (q)
		q->action.deadline_ns = deadline;
	c->armed_ns = deadline;
}

/* sent_ns: when the message that the coordinator answered was sent. */
void pilot_renew(struct pilot_core *c, uint64_t sent_ns, int64_t lease_ms)
{
	if (lease_ms <= 0)
		return;
	if (lease_ms > c->max_lease_ms)
		c->max_lease_ms = lease_ms;
	uint64_t end = sent_ns + (uint64_t)lease_ms * NS_PER_MS;
	if (end > c->lease_end_ns)
		c->lease_end_ns = end;
	arm(c);
}

bool pilot_has_lease(const struct pilot_core *c)
{
	return c->now_ns < c->lease_end_ns || (c->lease_end_ns && slurm_mutant_is(MUTANT_NO_KILL));
}

int64_t pilot_remaining_ms(const struct pilot_core *c)
{
	uint64_t until = c->settings.until_ns;
	if (!until)
		return -1;
	return until > c->now_ns ? (int64_t)((until - c->now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* ---- Time ------------------------------------------------------------------------------ */

/* Leaves when nothing is left to do or report, after the grace period of its end, or if no coordinator has answered. */
static void step_leave(struct pilot_core *c)
{
	bool done = c->num_attempts == 0 && (c->released || c->ending);
	if (done && c->link == LINK_WELCOMED) {
		pilot_answer(c, FRAME_BYE);
		leave(c, c->ending ? "told to stop" : "released");
	} else if (c->ending && c->now_ns >= c->ending_ns + c->settings.grace_ns)
		leave(c, "told to stop");
	else if (!c->epoch && c->now_ns >= c->begun_ns + c->settings.join_ns)
		leave(c, "no coordinator has answered");
}

static void step(struct pilot_core *c)
{
	uint64_t until = c->settings.until_ns;
	bool expired = c->lease_end_ns && !pilot_has_lease(c);
	if (expired || (until && c->now_ns >= until)) {
		leave(c, expired ? "the lease has ended" : "its time limit is reached");
		return;
	}
	if (until && c->now_ns + c->settings.grace_ns >= until)
		pilot_begin_ending(c);
	if (c->now_ns >= pilot_next_batch_ns(c))
		pilot_release_held(c);
	pilot_step_connection(c);
	step_leave(c);
}

uint64_t pilot_core_wake_ns(const struct pilot_core *c)
{
	const struct pilot_settings *s = &c->settings;
	uint64_t wake = UINT64_MAX;
#define SOONER(ns) wake = (ns) < wake ? (ns) : wake
	if (c->left)
		return wake;
	if (c->lease_end_ns)
		SOONER(c->lease_end_ns);
	else if (!c->epoch)
		SOONER(c->begun_ns + s->join_ns);
	if (s->until_ns)
		SOONER(c->ending || s->until_ns < s->grace_ns ? s->until_ns : s->until_ns - s->grace_ns);
	if (c->ending)
		SOONER(c->ending_ns + s->grace_ns);
	if (c->link == LINK_NONE)
		SOONER(c->next_connect_ns);
	else
		SOONER(c->heard_ns + pilot_silence_limit_ns(c));
	if (c->link == LINK_WELCOMED)
		SOONER(c->next_heartbeat_ns);
	SOONER(pilot_next_batch_ns(c));
#undef SOONER
	return wake;
}

/* ---- Events ---------------------------------------------------------------------------- */

static void handle(struct pilot_core *c, const struct pilot_event *e)
{
	switch (e->kind) {
	case PILOT_TICK:
		break;
	case PILOT_CONNECTED:
		if (c->link == LINK_CONNECTING && e->connection == c->connection)
			pilot_send_hello(c, e->lock_is_free);
		break;
	case PILOT_DISCONNECTED:
		if (e->connection == c->connection)
			pilot_disconnect(c, false);
		break;
	case PILOT_FRAME:
		pilot_on_frame(c, e);
		break;
	case PILOT_STARTED:
		pilot_on_started(c, e);
		break;
	case PILOT_NOT_STARTED:
		pilot_on_not_started(c, e);
		break;
	case PILOT_EXITED:
		pilot_on_exited(c, &e->exited);
		break;
	case PILOT_SAMPLED:
		if (e->num_gpus == c->settings.num_gpus && e->num_gpus) {
			memcpy(c->gpus, e->gpus, e->num_gpus * sizeof(*c->gpus));
			c->sample_is_new = true;
		}
		break;
	case PILOT_TERM:
		pilot_begin_ending(c);
		break;
	}
}

int pilot_core_handle(struct pilot_core *c, uint64_t now_ns, const struct pilot_event *event)
{
	drop_actions(c->given);
	c->given = NULL;
	if (now_ns > c->now_ns)
		c->now_ns = now_ns;
	if (c->left)
		return c->error;
	/* A pilot that the guard's timer is about to kill must not begin anything. */
	if (c->lease_end_ns && !pilot_has_lease(c)) {
		step(c);
		return c->error;
	}
	handle(c, event);
	if (!c->left)
		step(c);
	return c->error;
}

/* ---- Creation -------------------------------------------------------------------------- */

static void set_default(uint64_t *value, uint64_t standard)
{
	if (!*value)
		*value = standard;
}

int pilot_core_create(const struct pilot_settings *settings, uint64_t now_ns, struct pilot_core **ret)
{
	struct pilot_core *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->settings = *settings;
	c->last = &c->first;
	c->now_ns = c->begun_ns = c->next_connect_ns = now_ns;
	set_default(&c->settings.grace_ns, GRACE_NS);
	set_default(&c->settings.exit_hold_ns, ALLOCATION_EXIT_MS * NS_PER_MS);
	set_default(&c->settings.signal_hold_ns, ALLOCATION_SIGNAL_MS * NS_PER_MS);
	set_default(&c->settings.connect_ns, CONNECT_NS);
	set_default(&c->settings.join_ns, JOIN_NS);
	if (settings->num_gpus) {
		c->gpus = malloc(settings->num_gpus * sizeof(*c->gpus));
		if (!c->gpus) {
			free(c);
			return -ENOMEM;
		}
		memcpy(c->gpus, settings->gpus, settings->num_gpus * sizeof(*c->gpus));
		c->settings.gpus = c->gpus;
	}
	arm(c);
	*ret = c;
	return 0;
}

void pilot_core_destroy(struct pilot_core *c)
{
	if (!c)
		return;
	drop_actions(c->first);
	drop_actions(c->given);
	attempt_table_finish(&c->seen);
	free(c->attempts);
	free(c->gpus);
	free(c);
}

uint64_t pilot_core_lease_end_ns(const struct pilot_core *c)
{
	return c->lease_end_ns;
}

size_t pilot_core_num_running(const struct pilot_core *c)
{
	size_t running = 0;
	for (size_t i = 0; i < c->num_attempts; i++)
		running += c->attempts[i].stage < STAGE_HELD;
	return running;
}
