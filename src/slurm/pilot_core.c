/* SPDX-License-Identifier: MIT */
#include "slurm/pilot_core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "queue/keeper/allocation.h"
#include "slurm/attempt_table.h"
#include "slurm/mutant.h"

#define GRACE_NS         (10 * NS_PER_S)
#define CONNECT_NS       NS_PER_S
#define JOIN_NS          (600 * NS_PER_S)
#define FIRST_SILENCE_NS (15 * NS_PER_S)
/* Heartbeats whose sending time is remembered; an answer to an older one renews nothing. */
#define HEARTBEATS 64

enum link_state {
	LINK_NONE,
	LINK_CONNECTING,
	LINK_GREETED, /* the hello was sent */
	LINK_WELCOMED,
};

enum stage {
	STAGE_STARTING, /* PILOT_BEGIN is out */
	STAGE_RUNNING,
	STAGE_HELD,  /* over; the end is held back until release_ns */
	STAGE_ENDED, /* recorded; to be acknowledged */
};

struct pilot_attempt {
	struct attempt_id id;
	enum stage stage;
	struct frame_end end;
	uint64_t release_ns;
};

/* An action with the memory that it points to. */
struct queued_action {
	struct queued_action *next;
	struct pilot_action action;
	struct frame frame;
	struct frame_grant grant;
	struct frame_end end;
	char memory[];
};

struct pilot_core {
	struct pilot_settings settings;
	struct frame_gpu *gpus;
	bool sample_is_new;
	uint64_t now_ns;
	int error;

	enum link_state link;
	uint64_t connection;
	uint64_t session;
	uint64_t next_connect_ns, heard_ns;
	uint64_t hello_ns; /* when the hello of the current connection was sent */

	uint64_t epoch; /* 0: nobody has welcomed this pilot */
	uint64_t lease_end_ns;
	int64_t max_lease_ms;
	uint64_t silence_ns, heartbeat_ns;
	uint64_t heartbeat, next_heartbeat_ns;
	uint64_t sent_ns[HEARTBEATS]; /* by the heartbeat's number */
	uint64_t armed_ns;

	bool ending, released, left;
	uint64_t begun_ns, ending_ns;
	struct attempt_table seen;
	struct pilot_attempt *attempts;
	size_t num_attempts, attempts_capacity;
	struct queued_action *first, **last, *given;
};

/* ---- Actions --------------------------------------------------------------------------- */

static struct queued_action *push(struct pilot_core *c, enum pilot_action_kind kind, size_t memory)
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

static struct frame *push_frame(struct pilot_core *c, enum frame_kind kind, size_t memory)
{
	struct queued_action *q = push(c, PILOT_SEND, memory);
	if (!q)
		return NULL;
	q->frame = (struct frame){.kind = kind, .epoch = c->epoch, .session = c->session};
	q->action.frame = &q->frame;
	return &q->frame;
}

/* Only in a session that is welcomed: what is lost otherwise follows from the next hello. */
static struct frame *answer(struct pilot_core *c, enum frame_kind kind)
{
	return c->link == LINK_WELCOMED ? push_frame(c, kind, 0) : NULL;
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
	struct queued_action *q = c->left ? NULL : push(c, PILOT_LEAVE, 0);
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
	struct queued_action *q = push(c, PILOT_ARM, 0);
	if (q)
		q->action.deadline_ns = deadline;
	c->armed_ns = deadline;
}

/* sent_ns: when the message was sent that the coordinator has answered. */
static void renew(struct pilot_core *c, uint64_t sent_ns, int64_t lease_ms)
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

static bool has_lease(const struct pilot_core *c)
{
	return c->now_ns < c->lease_end_ns || (c->lease_end_ns && slurm_mutant_is(MUTANT_NO_KILL));
}

static int64_t remaining_ms(const struct pilot_core *c)
{
	uint64_t until = c->settings.until_ns;
	if (!until)
		return -1;
	return until > c->now_ns ? (int64_t)((until - c->now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* ---- Attempts -------------------------------------------------------------------------- */

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
	struct frame *f = answer(c, FRAME_REJECT);
	if (!f)
		return;
	f->reject = (struct frame_reject){.id = id, .rejection = why};
	snprintf(f->reject.words, sizeof(f->reject.words), "%s", words);
}

static void send_begun(struct pilot_core *c, struct attempt_id id, int64_t pid)
{
	struct frame *f = answer(c, FRAME_BEGUN);
	if (f)
		f->begun = (struct frame_begun){.id = id, .pid = pid};
}

static void send_end(struct pilot_core *c, const struct pilot_attempt *a)
{
	struct frame *f = answer(c, FRAME_END);
	if (f)
		f->end = a->end;
}

/* The attempt is over for good. */
static void release_end(struct pilot_core *c, struct pilot_attempt *a)
{
	struct queued_action *q = push(c, PILOT_RECORD, 0);
	if (!q)
		return;
	q->end = a->end;
	q->action.end = &q->end;
	a->stage = STAGE_ENDED;
	send_end(c, a);
}

/* False, if the attempt must not begin: then the grant was answered. */
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
			send_end(c, known);
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
	if (!has_lease(c)) {
		reject(c, g->id, REJECTION_LEASE, "the lease has ended");
		return false;
	}
	return true;
}

static void on_grant(struct pilot_core *c, const struct frame_grant *g)
{
	if (!may_begin(c, g))
		return;
	size_t gpus_size = g->num_gpus * sizeof(*g->gpus);
	if (array_reserve(c->attempts, &c->attempts_capacity, c->num_attempts + 1) < 0) {
		c->error = -ENOMEM;
		return;
	}
	struct queued_action *q = push(c, PILOT_BEGIN, gpus_size + g->order_size);
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

static void on_cancel(struct pilot_core *c, const struct frame_cancel *f)
{
	const struct pilot_attempt *a = find(c, f->id);
	if (a && a->stage >= STAGE_HELD)
		return;
	if (a) {
		struct queued_action *q = push(c, PILOT_STOP, 0);
		if (q) {
			q->action.id = f->id;
			q->action.mode = f->mode;
		}
		return;
	}
	/* Its grant, if it ever comes, is too late. */
	struct attempt_entry *seen = attempt_table_add(&c->seen, f->id.job);
	if (!seen)
		c->error = -ENOMEM;
	else if (f->id.attempt > seen->attempt) {
		seen->attempt = f->id.attempt;
		reject(c, f->id, REJECTION_CANCELLED, "cancelled before it began");
	}
}

/* ---- Ends ------------------------------------------------------------------------------ */

static void interrupt_end(struct pilot_attempt *a)
{
	a->end.outcome = OUTCOME_INTERRUPTED;
	snprintf(a->end.reason, sizeof(a->end.reason), "%s", "interrupted");
}

static void on_exited(struct pilot_core *c, const struct pilot_exit *e)
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
		.peak_mem_mb = e->peak_mem_mb};
	memcpy(a->end.reason, e->reason, sizeof(a->end.reason));
	a->end.reason[sizeof(a->end.reason) - 1] = '\0';
	a->stage = STAGE_HELD;
	uint64_t hold_ns = e->ours ? 0 : e->signal ? c->settings.signal_hold_ns : c->settings.exit_hold_ns;
	if (!e->ours && c->ending && e->exited_ns + hold_ns >= c->ending_ns)
		interrupt_end(a);
	/* From now on, not from the exit: if this process was stopped, a SIGTERM of then is still to be read. */
	a->release_ns = c->now_ns + (c->ending ? 0 : hold_ns);
	struct frame *f = answer(c, FRAME_FREED);
	if (f)
		f->freed = e->id;
}

static void release_held(struct pilot_core *c)
{
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_HELD && c->now_ns >= c->attempts[i].release_ns)
			release_end(c, &c->attempts[i]);
}

/* Slurm, or the clock, ends this pilot. What ended just before did so for the same reason. */
static void begin_ending(struct pilot_core *c)
{
	if (c->ending)
		return;
	release_held(c);
	c->ending = true;
	c->ending_ns = c->now_ns;
	for (size_t i = 0; i < c->num_attempts; i++) {
		struct pilot_attempt *a = &c->attempts[i];
		if (a->stage != STAGE_HELD)
			continue;
		interrupt_end(a);
		a->release_ns = c->now_ns;
	}
	push(c, PILOT_END_ALL, 0);
	answer(c, FRAME_ENDING);
}

/* ---- The connection -------------------------------------------------------------------- */

static void disconnect(struct pilot_core *c, bool close)
{
	if (c->link == LINK_NONE)
		return;
	if (close)
		push(c, PILOT_CLOSE, 0);
	c->link = LINK_NONE;
	c->next_connect_ns = c->now_ns + c->settings.connect_ns;
}

static void send_hello(struct pilot_core *c, bool lock_is_free)
{
	size_t gpus_size = c->settings.num_gpus * sizeof(*c->gpus);
	c->session++;
	struct frame *f = push_frame(c, FRAME_HELLO, gpus_size + c->num_attempts * sizeof(struct known_attempt));
	if (!f)
		return;
	struct queued_action *q = (struct queued_action *)((char *)f - offsetof(struct queued_action, frame));
	struct frame_gpu *gpus = (struct frame_gpu *)(void *)q->memory;
	struct known_attempt *known = (struct known_attempt *)(void *)(q->memory + gpus_size);
	if (gpus_size)
		memcpy(gpus, c->gpus, gpus_size);
	for (size_t i = 0; i < c->num_attempts; i++)
		known[i] = (struct known_attempt){.id = c->attempts[i].id,
			.state = c->attempts[i].stage >= STAGE_HELD ? KNOWN_ENDED : KNOWN_RUNNING};
	f->hello = (struct frame_hello){.version = FRAME_VERSION,
		.slurm_job = c->settings.slurm_job,
		.started_ms = c->settings.started_ms,
		.remaining_ms = remaining_ms(c),
		.lease_ms = c->max_lease_ms,
		.last_epoch = c->epoch,
		.lock_is_free = lock_is_free,
		.cpus = c->settings.cpus,
		.host_bytes = c->settings.host_bytes,
		.gpus = gpus,
		.num_gpus = c->settings.num_gpus,
		.attempts = known,
		.num_attempts = c->num_attempts};
	memcpy(f->hello.pilot, c->settings.pilot, sizeof(f->hello.pilot));
	memcpy(f->hello.node, c->settings.node, sizeof(f->hello.node));
	memcpy(f->hello.boot_id, c->settings.boot_id, sizeof(f->hello.boot_id));
	c->hello_ns = c->heard_ns = c->now_ns;
	c->link = LINK_GREETED;
}

static void on_welcome(struct pilot_core *c, const struct frame *f)
{
	if (f->epoch < c->epoch) {
		disconnect(c, true);
		return;
	}
	c->epoch = f->epoch;
	c->link = LINK_WELCOMED;
	c->silence_ns = (uint64_t)f->welcome.silence_ms * NS_PER_MS;
	c->heartbeat_ns = (uint64_t)f->welcome.heartbeat_ms * NS_PER_MS;
	c->heartbeat = 0;
	c->next_heartbeat_ns = c->now_ns + c->heartbeat_ns;
	renew(c, c->hello_ns, f->welcome.lease_ms);
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_ENDED)
			send_end(c, &c->attempts[i]);
	if (c->ending)
		answer(c, FRAME_ENDING);
}

static void send_heartbeat(struct pilot_core *c)
{
	size_t gpus_size = c->sample_is_new ? c->settings.num_gpus * sizeof(*c->gpus) : 0;
	struct frame *f = push_frame(c, FRAME_HEARTBEAT, gpus_size);
	if (!f)
		return;
	struct queued_action *q = (struct queued_action *)((char *)f - offsetof(struct queued_action, frame));
	if (gpus_size)
		memcpy(q->memory, c->gpus, gpus_size);
	f->heartbeat = (struct frame_heartbeat){.number = ++c->heartbeat,
		.remaining_ms = remaining_ms(c),
		.gpus = (const struct frame_gpu *)(const void *)q->memory,
		.num_gpus = gpus_size ? c->settings.num_gpus : 0};
	c->sent_ns[c->heartbeat % HEARTBEATS] = c->now_ns;
	c->sample_is_new = false;
	c->next_heartbeat_ns = c->now_ns + c->heartbeat_ns;
}

static void on_renew(struct pilot_core *c, const struct frame_renew *r)
{
	if (r->number && r->number <= c->heartbeat && c->heartbeat - r->number < HEARTBEATS)
		renew(c, c->sent_ns[r->number % HEARTBEATS], r->lease_ms);
}

static void on_end_ack(struct pilot_core *c, struct attempt_id id)
{
	struct pilot_attempt *a = find(c, id);
	if (a && a->stage == STAGE_ENDED)
		forget(c, a);
}

static void on_welcomed_frame(struct pilot_core *c, const struct frame *f)
{
	if (f->epoch != c->epoch)
		return;
	switch (f->kind) {
	case FRAME_GRANT:
		on_grant(c, &f->grant);
		break;
	case FRAME_END_ACK:
		on_end_ack(c, f->end_ack);
		break;
	case FRAME_RENEW:
		on_renew(c, &f->renew);
		break;
	case FRAME_CANCEL:
		on_cancel(c, &f->cancel);
		break;
	case FRAME_RELEASE:
		c->released = true;
		break;
	default:
		break;
	}
}

static void on_frame(struct pilot_core *c, const struct pilot_event *e)
{
	const struct frame *f = e->frame;
	if (c->link < LINK_GREETED || e->connection != c->connection || f->session != c->session)
		return;
	c->heard_ns = c->now_ns;
	if (f->kind == FRAME_REFUSE && f->epoch >= c->epoch) {
		/* The words are the frame's, which does not live as long as the action. */
		struct queued_action *q = c->left ? NULL : push(c, PILOT_LEAVE, sizeof(f->refuse.words));
		if (q) {
			snprintf(q->memory, sizeof(f->refuse.words), "%s", f->refuse.words);
			q->action.words = q->memory;
		}
		c->left = true;
	} else if (c->link == LINK_WELCOMED)
		on_welcomed_frame(c, f);
	else if (f->kind == FRAME_WELCOME)
		on_welcome(c, f);
}

/* ---- Time ------------------------------------------------------------------------------ */

static uint64_t silence_limit_ns(const struct pilot_core *c)
{
	return c->silence_ns ? c->silence_ns : FIRST_SILENCE_NS;
}

static void step_connection(struct pilot_core *c)
{
	if (c->link != LINK_NONE && c->now_ns >= c->heard_ns + silence_limit_ns(c))
		disconnect(c, true);
	if (c->link == LINK_NONE && c->now_ns >= c->next_connect_ns) {
		c->connection++;
		c->link = LINK_CONNECTING;
		c->heard_ns = c->now_ns;
		push(c, PILOT_CONNECT, 0);
	}
	if (c->link == LINK_WELCOMED && c->now_ns >= c->next_heartbeat_ns)
		send_heartbeat(c);
}

/* All that is left to say is said, or nobody listens and it stands in the outbox. */
static void step_leave(struct pilot_core *c)
{
	bool done = c->num_attempts == 0 && (c->released || c->ending);
	if (done && c->link == LINK_WELCOMED) {
		answer(c, FRAME_BYE);
		leave(c, c->ending ? "told to end" : "released");
	} else if (c->ending && c->now_ns >= c->ending_ns + c->settings.grace_ns)
		leave(c, "told to end");
	else if (!c->epoch && c->now_ns >= c->begun_ns + c->settings.join_ns)
		leave(c, "no coordinator has answered");
}

static void step(struct pilot_core *c)
{
	uint64_t until = c->settings.until_ns;
	bool expired = c->lease_end_ns && !has_lease(c);
	if (expired || (until && c->now_ns >= until)) {
		leave(c, expired ? "the lease has ended" : "its time is over");
		return;
	}
	if (until && c->now_ns + c->settings.grace_ns >= until)
		begin_ending(c);
	release_held(c);
	step_connection(c);
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
		SOONER(c->heard_ns + silence_limit_ns(c));
	if (c->link == LINK_WELCOMED)
		SOONER(c->next_heartbeat_ns);
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_HELD)
			SOONER(c->attempts[i].release_ns);
#undef SOONER
	return wake;
}

/* ---- Events ---------------------------------------------------------------------------- */

static void on_started(struct pilot_core *c, const struct pilot_event *e)
{
	struct pilot_attempt *a = find(c, e->id);
	if (!a || a->stage != STAGE_STARTING)
		return;
	a->stage = STAGE_RUNNING;
	send_begun(c, e->id, e->pid);
}

static void on_not_started(struct pilot_core *c, const struct pilot_event *e)
{
	struct pilot_attempt *a = find(c, e->id);
	if (!a || a->stage != STAGE_STARTING)
		return;
	forget(c, a);
	reject(c, e->id, c->ending ? REJECTION_ENDING : REJECTION_START, e->words ? e->words : "");
}

static void handle(struct pilot_core *c, const struct pilot_event *e)
{
	switch (e->kind) {
	case PILOT_TICK:
		break;
	case PILOT_CONNECTED:
		if (c->link == LINK_CONNECTING && e->connection == c->connection)
			send_hello(c, e->lock_is_free);
		break;
	case PILOT_DISCONNECTED:
		if (e->connection == c->connection)
			disconnect(c, false);
		break;
	case PILOT_FRAME:
		on_frame(c, e);
		break;
	case PILOT_STARTED:
		on_started(c, e);
		break;
	case PILOT_NOT_STARTED:
		on_not_started(c, e);
		break;
	case PILOT_EXITED:
		on_exited(c, &e->exited);
		break;
	case PILOT_SAMPLED:
		if (e->num_gpus == c->settings.num_gpus && e->num_gpus) {
			memcpy(c->gpus, e->gpus, e->num_gpus * sizeof(*c->gpus));
			c->sample_is_new = true;
		}
		break;
	case PILOT_TERM:
		begin_ending(c);
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
	/* What the guard's timer ends anyway must not begin anything first. */
	if (c->lease_end_ns && !has_lease(c)) {
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
