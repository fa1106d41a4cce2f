/* SPDX-License-Identifier: MIT */
/* The connection of a pilot to its coordinator. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "slurm/pilot_private.h"

#define FIRST_SILENCE_NS (15 * NS_PER_S)

void pilot_disconnect(struct pilot_core *c, bool close)
{
	if (c->link == LINK_NONE)
		return;
	if (close)
		pilot_push(c, PILOT_CLOSE, 0);
	c->link = LINK_NONE;
	c->next_connect_ns = c->now_ns + c->settings.connect_ns;
}

void pilot_send_hello(struct pilot_core *c, bool lock_is_free)
{
	size_t gpus_size = c->settings.num_gpus * sizeof(*c->gpus);
	c->session++;
	struct frame *f = pilot_push_frame(c, FRAME_HELLO, gpus_size + c->num_attempts * sizeof(struct known_attempt));
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
		.remaining_ms = pilot_remaining_ms(c),
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
		pilot_disconnect(c, true);
		return;
	}
	c->epoch = f->epoch;
	c->link = LINK_WELCOMED;
	c->silence_ns = (uint64_t)f->welcome.silence_ms * NS_PER_MS;
	c->heartbeat_ns = (uint64_t)f->welcome.heartbeat_ms * NS_PER_MS;
	c->heartbeat = 0;
	c->next_heartbeat_ns = c->now_ns + c->heartbeat_ns;
	pilot_renew(c, c->hello_ns, f->welcome.lease_ms);
	for (size_t i = 0; i < c->num_attempts; i++)
		if (c->attempts[i].stage == STAGE_ENDED)
			pilot_send_end(c, &c->attempts[i]);
	if (c->ending)
		pilot_answer(c, FRAME_ENDING);
}

static void send_heartbeat(struct pilot_core *c)
{
	size_t gpus_size = c->sample_is_new ? c->settings.num_gpus * sizeof(*c->gpus) : 0;
	struct frame *f = pilot_push_frame(c, FRAME_HEARTBEAT, gpus_size);
	if (!f)
		return;
	struct queued_action *q = (struct queued_action *)((char *)f - offsetof(struct queued_action, frame));
	if (gpus_size)
		memcpy(q->memory, c->gpus, gpus_size);
	f->heartbeat = (struct frame_heartbeat){.number = ++c->heartbeat,
		.remaining_ms = pilot_remaining_ms(c),
		.gpus = (const struct frame_gpu *)(const void *)q->memory,
		.num_gpus = gpus_size ? c->settings.num_gpus : 0};
	c->sent_ns[c->heartbeat % HEARTBEATS] = c->now_ns;
	c->sample_is_new = false;
	c->next_heartbeat_ns = c->now_ns + c->heartbeat_ns;
}

static void on_renew(struct pilot_core *c, const struct frame_renew *r)
{
	if (r->number && r->number <= c->heartbeat && c->heartbeat - r->number < HEARTBEATS)
		pilot_renew(c, c->sent_ns[r->number % HEARTBEATS], r->lease_ms);
}

static void on_welcomed_frame(struct pilot_core *c, const struct frame *f)
{
	if (f->epoch != c->epoch)
		return;
	switch (f->kind) {
	case FRAME_GRANT:
		pilot_on_grant(c, &f->grant);
		break;
	case FRAME_END_ACK:
		pilot_on_end_ack(c, f->end_ack);
		break;
	case FRAME_RENEW:
		on_renew(c, &f->renew);
		break;
	case FRAME_CANCEL:
		pilot_on_cancel(c, &f->cancel);
		break;
	case FRAME_RELEASE:
		c->released = true;
		break;
	default:
		break;
	}
}

void pilot_on_frame(struct pilot_core *c, const struct pilot_event *e)
{
	const struct frame *f = e->frame;
	if (c->link < LINK_GREETED || e->connection != c->connection || f->session != c->session)
		return;
	c->heard_ns = c->now_ns;
	if (f->kind == FRAME_REFUSE && f->epoch >= c->epoch) {
		/* Copy the message: the frame does not live as long as the action. */
		struct queued_action *q = c->left ? NULL : pilot_push(c, PILOT_LEAVE, sizeof(f->refuse.words));
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

uint64_t pilot_silence_limit_ns(const struct pilot_core *c)
{
	return c->silence_ns ? c->silence_ns : FIRST_SILENCE_NS;
}

void pilot_step_connection(struct pilot_core *c)
{
	if (c->link != LINK_NONE && c->now_ns >= c->heard_ns + pilot_silence_limit_ns(c))
		pilot_disconnect(c, true);
	if (c->link == LINK_NONE && c->now_ns >= c->next_connect_ns) {
		c->connection++;
		c->link = LINK_CONNECTING;
		c->heard_ns = c->now_ns;
		pilot_push(c, PILOT_CONNECT, 0);
	}
	if (c->link == LINK_WELCOMED && c->now_ns >= c->next_heartbeat_ns)
		send_heartbeat(c);
}
