/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "pool/payload.h"
#include "pool/pool_private.h"
#include "pool/result.h"

#define BATCH 64

/* A batch of records, copied out of the worker's memory before they are checked. */
struct batch {
	struct ring_desc descs[BATCH];
	size_t count;
	uint64_t first_task; /* sequence number of the task that the first RING_DONE is about */
	uint64_t end_task;   /* after the last task that the worker had at that time; submitters may add more */
};

/* All tasks of a batch are announced before the first one ends. */
static const char *wrong_beginning(const struct slot *s, const struct ring_desc *d, uint64_t task)
{
	uint64_t begun = slot_begun(s);
	for (uint64_t seq = task; seq < s->in.head; seq++)
		if (s->tasks[seq % RING_DEPTH].id == d->id)
			return seq < begun ? NULL : "it reported the start of a task that has not begun";
	return "it reported the start of a task that it does not have";
}

/* NULL if the record may be used, otherwise what is wrong with it. `task`: the first one without an answer. */
static const char *wrong(const struct slot *s, const struct ring_desc *d, uint64_t task)
{
	const char *words = payload_check(d);
	if (words)
		return words;
	switch (d->kind) {
	case RING_DONE:
		if (task >= s->in.head || s->tasks[task % RING_DEPTH].id != d->id)
			return "it answered a task that it does not have";
		return NULL;
	case RING_MESSAGE:
		if (d->id != RING_NO_TASK && (task >= s->in.head || s->tasks[task % RING_DEPTH].id != d->id))
			return "it sent a message about a task that it does not have";
		return NULL;
	case RING_STARTED:
		return wrong_beginning(s, d, task);
	/* A record that is not due occupies the place of a later answer, which would be lost. */
	case RING_READY:
	case RING_SETUP_FAILED:
		return s->setup_over ? "it reported the end of its setup twice" : NULL;
	case RING_CLEANUP_FAILED:
	case RING_CLEANED:
		return s->state == SLOT_CLOSING ? NULL : "it reported the end of a cleanup that was not requested";
	default:
		return "it sent a record of an unknown kind";
	}
}

static void sane_times(struct ring_desc *d, uint64_t now)
{
	if (d->end_ns > now || d->end_ns == 0)
		d->end_ns = now;
	if (d->start_ns > d->end_ns || d->start_ns == 0)
		d->start_ns = d->end_ns;
}

static inline void count_done(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	uint64_t took = d->end_ns - d->start_ns;
	slot_learn(s, d->start_ns, d->end_ns);
	histogram_add(&p->durations, took);
	s->stats.busy_ns += took;
	s->stats.last_duration_ns = took;
	s->stats.since_ns = d->end_ns;
	s->completed++;
}

/* With the lock held: copies and checks the records and counts ended tasks, so that the worker gets more at once. */
static void collect(struct gd_pool *p, struct slot *s, struct batch *b)
{
	uint64_t head = atomic_load_explicit(&s->channel.out->head, memory_order_acquire);
	uint64_t there = head - s->consumed;
	b->count = 0;
	b->first_task = s->completed;
	b->end_task = s->in.head;
	if (there == 0)
		return;
	if (there > RING_DEPTH) {
		s->broken = "it sent an impossible number of answers";
		return;
	}
	struct ring_desc *records = outbox_descs(s->channel.out);
	size_t most = there < BATCH ? (size_t)there : BATCH;
	uint64_t now = clock_now_ns();
	for (size_t i = 0; i < most; i++, b->count++) {
		struct ring_desc *d = &b->descs[i];
		*d = *ring_at(records, s->consumed + i);
		const char *words = wrong(s, d, s->completed);
		if (words) {
			s->broken = words;
			return;
		}
		sane_times(d, now);
		if (d->kind == RING_DONE)
			count_done(p, s, d);
		else if (d->kind == RING_READY || d->kind == RING_SETUP_FAILED)
			s->setup_over = true;
	}
	if (pool_has_waiting(p))
		pool_hand_out(p);
	if (s->published != s->in.head)
		slot_publish(s);
	p->maybe_idle |= slot_in_flight(s) == 0;
}

/* The message of a failure, or one with the value that the hook returned. */
static void failure_words(
	const struct slot *s, const struct ring_desc *d, const char *hook, char words[PAYLOAD_WORDS_MAX])
{
	payload_words(s, d, words);
	if (words[0] == '\0')
		snprintf(words, PAYLOAD_WORDS_MAX, "%s returned %d: %s", hook, d->code, error_words(d->code));
}

/* The payload of a failure did not arrive: the failure is reported without it, and its message states this. */
static void add_lost_bytes(char words[PAYLOAD_WORDS_MAX], const struct ring_desc *d, int error)
{
	size_t used = strlen(words);
	snprintf(words + used, PAYLOAD_WORDS_MAX - used, " (its %llu bytes could not be received: %s)",
		(unsigned long long)d->size, error_words(error));
}

/* `lost`: 0, or why the payload could not be received. */
static void conclude_failed(struct gd_pool *p, struct slot *s, uint64_t seq, const struct ring_desc *d,
	const struct payload *payload, int lost, struct gd_event *event)
{
	char words[PAYLOAD_WORDS_MAX];
	bool cancelled = inbox_mark(s->channel.in, seq) & RING_MARK_CANCELLED;
	event->failure = cancelled ? GD_FAILURE_CANCELLED : GD_FAILURE_ERROR;
	event->code = d->code;
	event->result = payload->bytes;
	event->internal = payload->result;
	event->message = words;
	failure_words(s, d, "process", words);
	if (lost < 0)
		add_lost_bytes(words, d, lost);
	tally_count(cancelled ? &s->tally.cancelled : &s->tally.failed);
	pool_conclude(p, slot_task(s, seq), event);
}

static inline void conclude_done(
	struct gd_pool *p, struct slot *s, struct task *t, const struct payload *payload, struct gd_event *event)
{
	/* Load them one by one: loaded as a pair, they would stall until both stores have left the processor. */
	event->result.data = payload->bytes.data;
	event->result.size = payload->bytes.size;
	event->internal = payload->result;
	tally_count(&s->tally.completed);
	pool_conclude_success(p, t, event);
}

/* The result could not be received; -EPROTO: the worker is broken. */
static void conclude_not_carried(
	struct gd_pool *p, struct slot *s, struct task *t, const struct ring_desc *d, int error, struct gd_event *event)
{
	char words[192];
	event->message = words;
	if (error == -EPROTO) {
		death_describe_broken(s, words, sizeof(words));
		event->failure = GD_FAILURE_CRASHED;
	} else {
		snprintf(words, sizeof(words), "the result of %llu bytes could not be received: %s",
			(unsigned long long)d->size, error_words(error));
		event->failure = GD_FAILURE_NOT_CARRIED;
		event->code = error;
	}
	tally_count(&s->tally.failed);
	pool_conclude(p, t, event);
}

static void done(struct gd_pool *p, struct slot *s, uint64_t seq, const struct ring_desc *d)
{
	struct task *t = slot_task(s, seq);
	uint64_t mark = inbox_mark(s->channel.in, seq);
	if ((d->flags & RING_SKIPPED) && (mark & RING_MARK_CANCELLED)) {
		tally_count(&s->tally.cancelled);
		pool_conclude_skipped(p, t);
		return;
	}
	pool_announce(p, s, t, d->start_ns);
	struct gd_event event;
	pool_event_init(&event, s, t);
	/* The worker reports the end of its last task as the beginning of this one, which may have arrived later. */
	event.started_ns = d->start_ns > t->queued_ns ? d->start_ns : t->queued_ns;
	event.ended_ns = d->end_ns > event.started_ns ? d->end_ns : event.started_ns;
	struct payload payload = {0};
	int r = 0;
	if (payload_is_external(d)) /* take it off the socket in any case, or the next record would get it */
		r = payload_receive(p, s, d, &payload);
	else
		payload.bytes = payload_in_place(s, d);
	if (mark & RING_MARK_TIMED_OUT)
		pool_conclude_timed_out(p, s, seq, &event, false);
	else if (d->code < 0)
		conclude_failed(p, s, seq, d, &payload, r, &event);
	else if (r < 0)
		conclude_not_carried(p, s, t, d, r, &event);
	else
		conclude_done(p, s, t, &payload, &event);
	if (payload.result)
		payload_finish(&payload);
}

static void ready(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	pthread_mutex_lock(&p->lock);
	if (s->state == SLOT_STARTING) {
		s->state = SLOT_READY;
		s->loading_ns += clock_now_ns() - s->starting_ns;
		atomic_store(&s->channel.in->ready, 1);
		s->batch = d->attempt < 1 ? 1 : d->attempt > RING_DEPTH ? RING_DEPTH : d->attempt;
		s->was_ready = true;
		p->maybe_idle = true;
		fair_start_ready(p, s);
		pthread_cond_broadcast(&p->room);
		pool_hand_out(p);
	}
	pthread_mutex_unlock(&p->lock);
	setups_give_turn(p, s);
}

static struct gd_event event_without_task(const struct slot *s, const struct ring_desc *d)
{
	return (struct gd_event){
		.size = sizeof(struct gd_event),
		.id = RING_NO_TASK,
		.slot = s->index,
		.gpu = s->gpu,
		.ended_ns = d->end_ns,
		.message = "",
	};
}

static void cleanup_failed(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	char words[PAYLOAD_WORDS_MAX];
	struct payload payload;
	int r = payload_receive(p, s, d, &payload);
	failure_words(s, d, "cleanup", words);
	if (r < 0)
		add_lost_bytes(words, d, r);
	struct gd_event event = event_without_task(s, d);
	event.failure = GD_FAILURE_ERROR;
	event.code = d->code;
	event.message = words;
	event.result = payload.bytes;
	event.internal = payload.result;
	pool_call(p, p->callbacks.on_cleanup_fail, &event);
	payload_finish(&payload);
}

/* Keeps the failure until the process has ended; see life_over(). */
static void setup_failed(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	/* The worker leaves next, with the time limit of a cleanup. */
	warden_order(&p->warden,
		(struct warden_order){.kind = WARDEN_ORDER_CLOSE, .slot = (uint32_t)s->index, .life = s->life}, NULL,
		0);
	struct payload payload;
	int r = payload_receive(p, s, d, &payload);
	if (r >= 0 && payload.result)
		s->setup_payload = payload.result;
	else if (r >= 0 && payload.bytes.size > 0)
		r = result_copy(payload.bytes, &s->setup_payload);
	s->setup_code = d->code;
	failure_words(s, d, "setup", s->setup_words);
	if (r < 0)
		add_lost_bytes(s->setup_words, d, r);
}

/* Messages are not held back, even in an ordered pool. */
static void message(struct gd_pool *p, struct slot *s, uint64_t task, const struct ring_desc *d)
{
	char words[160];
	struct payload payload;
	int r = payload_receive(p, s, d, &payload);
	const struct task *t = slot_task(s, task);
	struct gd_event event;
	if (d->id == RING_NO_TASK) {
		event = event_without_task(s, d);
	} else {
		pool_event_init(&event, s, t);
		event.started_ns = d->start_ns > t->queued_ns ? d->start_ns : t->queued_ns;
	}
	event.ended_ns = d->end_ns;
	event.result = payload.bytes;
	event.internal = payload.result;
	if (r < 0) {
		snprintf(words, sizeof(words), "a message of %llu bytes could not be received: %s",
			(unsigned long long)d->size, error_words(r));
		event.failure = GD_FAILURE_NOT_CARRIED;
		event.code = r;
		event.message = words;
	}
	pool_call(p, p->callbacks.on_message, &event);
	payload_finish(&payload);
}

static void started(struct gd_pool *p, struct slot *s, uint64_t task, uint64_t end_task, const struct ring_desc *d)
{
	for (uint64_t seq = task; seq < end_task; seq++) {
		struct task *t = slot_task(s, seq);
		if (t->id == d->id) {
			pool_announce(p, s, t, d->start_ns);
			return;
		}
	}
}

/* The callbacks, without the lock. */
static void act(struct gd_pool *p, struct slot *s, const struct batch *b)
{
	uint64_t task = b->first_task;
	for (size_t i = 0; i < b->count; i++) {
		const struct ring_desc *d = &b->descs[i];
		switch (d->kind) {
		case RING_DONE:
			done(p, s, task++, d);
			break;
		case RING_STARTED:
			started(p, s, task, b->end_task, d);
			break;
		case RING_MESSAGE:
			message(p, s, task, d);
			break;
		case RING_READY:
			ready(p, s, d);
			break;
		case RING_SETUP_FAILED:
			setup_failed(p, s, d);
			break;
		case RING_CLEANUP_FAILED:
			cleanup_failed(p, s, d);
			break;
		case RING_CLEANED:
			s->cleaned = true;
			break;
		}
		pool_progress(p, false); /* callbacks may be slow */
	}
}

/* Frees the space of records whose callbacks were made, on both sides. */
static void release(struct gd_pool *p, struct slot *s, size_t count)
{
	pthread_mutex_lock(&p->lock);
	ring_release(&s->in, s->completed);
	if (pool_has_waiting(p))
		pool_hand_out(p);
	/* The other submitters are woken at the end of the turn. */
	if (atomic_load_explicit(&p->large, memory_order_relaxed) > 0 &&
		atomic_load_explicit(&p->waiting, memory_order_relaxed) > 0)
		pthread_cond_broadcast(&p->room);
	pthread_mutex_unlock(&p->lock);

	s->consumed += count;
	atomic_store_explicit(&s->channel.in->completed, s->completed, memory_order_relaxed);
	atomic_store(&s->channel.in->consumed, s->consumed);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&s->channel.out->wanted))
		channel_wake_worker(&s->channel);
}

size_t pool_read_answers(struct gd_pool *p, struct slot *s)
{
	if (!s->channel.out || s->broken ||
		atomic_load_explicit(&s->channel.out->head, memory_order_relaxed) == s->consumed)
		return 0;
	struct batch b;
	pthread_mutex_lock(&p->lock);
	collect(p, s, &b);
	pthread_mutex_unlock(&p->lock);
	act(p, s, &b);
	release(p, s, b.count);
	if (s->broken)
		pool_kill_worker(p, s);
	return b.count;
}
