/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "pool/pool_private.h"

#define BATCH     64
#define WORDS_MAX 1024

/* A batch of records, copied out of the worker's memory before they are looked at. */
struct batch {
	struct ring_desc descs[BATCH];
	size_t count;
	uint64_t first_task; /* sequence number of the task that the first RING_DONE is about */
	uint64_t end_task;   /* after the last task that the worker had then; submitters go on giving it more */
};

/* What the n-th record must be for us to go on with it; else the words. */
static const char *wrong(const struct slot *s, const struct ring_desc *d, uint64_t n, uint64_t task)
{
	/* Only results come as parcels: words are read in place. */
	bool external = (d->flags & RING_EXTERNAL) && d->kind == RING_DONE && d->code >= 0;
	if (!external && (d->offset > CHANNEL_ARENA || d->size > CHANNEL_ARENA - d->offset))
		return "a result that lies outside of its memory";
	switch (d->kind) {
	case RING_DONE:
		if (task >= s->in.head || s->tasks[task % RING_DEPTH].id != d->id)
			return "an answer to a task that it was not given";
		return NULL;
	case RING_STARTED:
		/* Of a batch, all are announced before the first ends. */
		for (uint64_t seq = task; seq < s->in.head; seq++)
			if (s->tasks[seq % RING_DEPTH].id == d->id)
				return NULL;
		return "the beginning of a task that it was not given";
	/* One that is not due stands where an answer will be written, which would be lost. */
	case RING_READY:
	case RING_SETUP_FAILED:
		return n == 0 ? NULL : "the end of a setup that was over";
	case RING_CLEANUP_FAILED:
	case RING_CLEANED:
		return s->state == SLOT_CLOSING ? NULL : "the end of a cleanup that it was not asked for";
	default:
		return "a record of no known kind";
	}
}

static void sane_times(struct ring_desc *d, uint64_t now)
{
	if (d->end_ns > now || d->end_ns == 0)
		d->end_ns = now;
	if (d->start_ns > d->end_ns || d->start_ns == 0)
		d->start_ns = d->end_ns;
}

/* With the lock held: copies, checks, counts what has ended, so that the worker gets more at once. */
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
		s->broken = "a count of answers that cannot be";
		return;
	}
	uint64_t now = clock_now_ns();
	for (; b->count < BATCH && b->count < there; b->count++) {
		struct ring_desc *d = &b->descs[b->count];
		*d = *ring_at(outbox_descs(s->channel.out), s->consumed + b->count);
		s->broken = wrong(s, d, s->consumed + b->count, s->completed);
		if (s->broken)
			return;
		if (d->kind != RING_DONE)
			continue;
		sane_times(d, now);
		slot_learn(s, d->start_ns, d->end_ns);
		histogram_add(&p->durations, d->end_ns - d->start_ns);
		s->stats.busy_ns += d->end_ns - d->start_ns;
		s->stats.last_duration_ns = d->end_ns - d->start_ns;
		s->completed++;
		s->stats.since_ns = d->end_ns;
	}
	if (pool_has_waiting(p))
		pool_hand_out(p);
	if (s->published != s->in.head)
		slot_publish(s);
	p->maybe_idle |= slot_in_flight(s) == 0;
}

/* Words from the worker's memory, which may change under our eyes. */
static const char *words_of(const struct slot *s, const struct ring_desc *d, char *buf, size_t size)
{
	size_t n = d->size < size - 1 ? (size_t)d->size : size - 1;
	memcpy(buf, outbox_arena(s->channel.out) + d->offset, n);
	buf[n] = '\0';
	return buf;
}

static void conclude_failed(
	struct gd_pool *p, struct slot *s, uint64_t seq, const struct ring_desc *d, struct gd_event *event)
{
	char words[WORDS_MAX];
	bool cancelled = atomic_load(&s->channel.in->cancelled) > seq;
	event->failure = cancelled ? GD_CANCELLED : GD_FAILED;
	event->code = d->code;
	event->message = words_of(s, d, words, sizeof(words));
	if (words[0] == '\0')
		snprintf(words, sizeof(words), "process returned %d: %s", d->code, error_words(d->code));
	tally_count(&s->tally.failed);
	pool_conclude(p, slot_task(s, seq), event);
}

static void conclude_done(
	struct gd_pool *p, struct slot *s, struct task *t, const struct ring_desc *d, struct gd_event *event)
{
	event->result.size = d->size;
	event->result.data = outbox_arena(s->channel.out) + d->offset;
	tally_count(&s->tally.completed);
	pool_conclude(p, t, event);
}

/* The result that was sent. A worker that sent something else is broken, and nothing more is taken from its socket. */
static int receive_result(struct gd_pool *p, struct slot *s, const struct ring_desc *d, struct parcel *ret)
{
	if (s->lost_parcel)
		return -EPROTO;
	int r = parcel_receive(s->socket, d->size, false, ret);
	if (r != -EPROTO && r != -EPIPE)
		return r;
	pthread_mutex_lock(&p->lock);
	s->broken = "a result that is not one sealed memory file of the size that it told";
	s->lost_parcel = true;
	pthread_mutex_unlock(&p->lock);
	return -EPROTO;
}

static void conclude_external(
	struct gd_pool *p, struct slot *s, struct task *t, const struct ring_desc *d, struct gd_event *event)
{
	struct parcel parcel = PARCEL_NONE;
	char words[192];
	int r = receive_result(p, s, d, &parcel);
	if (r == -EPROTO) {
		death_describe_broken(s, words, sizeof(words));
		event->failure = GD_CRASHED;
		event->message = words;
		tally_count(&s->tally.failed);
	} else if (r < 0) {
		snprintf(words, sizeof(words), "the result of %llu bytes could not be received: %s",
			(unsigned long long)d->size, error_words(r));
		event->failure = GD_NOT_CARRIED;
		event->code = r;
		event->message = words;
		tally_count(&s->tally.failed);
	} else {
		event->result = (struct gd_bytes){.data = parcel.data, .size = parcel.size};
		tally_count(&s->tally.completed);
	}
	pool_conclude(p, t, event);
	parcel_finish(&parcel);
}

static void conclude_timed_out(struct gd_pool *p, struct slot *s, struct task *t, struct gd_event *event)
{
	char words[96];
	snprintf(words, sizeof(words), "not done within %lld ms", (long long)p->options->task_timeout_ms);
	event->failure = GD_TIMED_OUT;
	event->code = -ETIMEDOUT;
	event->message = words;
	tally_count(&s->tally.timeouts);
	pool_conclude(p, t, event);
}

static void done(struct gd_pool *p, struct slot *s, uint64_t seq, const struct ring_desc *d)
{
	struct task *t = slot_task(s, seq);
	pool_announce(p, s, t, d->start_ns);
	struct gd_event event = pool_event(s, t);
	/* What the worker calls the beginning is the end of its last task: that may be before this one came. */
	event.started_ns = d->start_ns > t->queued_ns ? d->start_ns : t->queued_ns;
	event.ended_ns = d->end_ns > event.started_ns ? d->end_ns : event.started_ns;
	if (atomic_load_explicit(&s->channel.in->timed_out, memory_order_relaxed) > seq) {
		if (d->flags & RING_EXTERNAL) { /* off the socket, or the next one would get it */
			struct parcel parcel;
			if (receive_result(p, s, d, &parcel) >= 0)
				parcel_finish(&parcel);
		}
		conclude_timed_out(p, s, t, &event);
	} else if (d->code < 0) {
		conclude_failed(p, s, seq, d, &event);
	} else if (d->flags & RING_EXTERNAL) {
		conclude_external(p, s, t, d, &event);
	} else {
		conclude_done(p, s, t, d, &event);
	}
}

static void ready(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	pthread_mutex_lock(&p->lock);
	if (s->state == SLOT_STARTING) {
		s->state = SLOT_READY;
		s->batch = d->attempt < 1 ? 1 : d->attempt > RING_DEPTH ? RING_DEPTH : d->attempt;
		s->was_ready = true;
		p->maybe_idle = true;
		pthread_cond_broadcast(&p->room);
		pool_hand_out(p);
	}
	pthread_mutex_unlock(&p->lock);
}

static void cleanup_failed(struct gd_pool *p, struct slot *s, const struct ring_desc *d)
{
	char words[WORDS_MAX];
	struct gd_event event = {
		.slot = s->index,
		.gpu = s->gpu,
		.ended_ns = d->end_ns,
		.failure = GD_FAILED,
		.code = d->code,
		.message = words_of(s, d, words, sizeof(words)),
	};
	if (words[0] == '\0')
		snprintf(words, sizeof(words), "cleanup returned %d: %s", d->code, error_words(d->code));
	pool_call(p, p->options->on_cleanup_fail, &event);
}

static void setup_failed(struct slot *s, const struct ring_desc *d)
{
	s->setup_code = d->code;
	words_of(s, d, s->setup_words, sizeof(s->setup_words));
	if (s->setup_words[0] == '\0')
		snprintf(
			s->setup_words, sizeof(s->setup_words), "setup returned %d: %s", d->code, error_words(d->code));
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

/* Without the lock: the callbacks. */
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
		case RING_READY:
			ready(p, s, d);
			break;
		case RING_SETUP_FAILED:
			setup_failed(s, d);
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

/* The room of what was called back is free again, here and there. */
static void release(struct gd_pool *p, struct slot *s, size_t count)
{
	pthread_mutex_lock(&p->lock);
	ring_release(&s->in, s->completed);
	if (pool_has_waiting(p))
		pool_hand_out(p);
	if (atomic_load_explicit(&p->waiting, memory_order_relaxed) > 0)
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
