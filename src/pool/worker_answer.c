/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "pool/interrupt.h"
#include "pool/worker_private.h"

/* ---- Publishing --------------------------------------------------------- */

void worker_notify(struct gd_worker *w)
{
	w->owes_notice = false;
	uint64_t arm = atomic_load_explicit(&w->channel.in->armed, memory_order_relaxed);
	if (arm == 0 || arm == w->answered_arm)
		return;
	w->answered_arm = arm;
	uint64_t one = 1;
	/* EAGAIN: the counter is full, so the owner is awake or about to be. */
	if (write(w->fds.event, &one, sizeof(one)) < 0 && errno != EAGAIN)
		_exit(1);
}

/* What was put into the ring is shown. */
static void show(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->head, w->out.head, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	worker_notify(w);
}

/* The same for the last act of a task: begin() comes next, and has a fence of its own. */
static void show_at_end(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->head, w->out.head, memory_order_release);
	w->owes_notice = true;
}

static void publish(struct gd_worker *w, const void *data, struct ring_desc desc)
{
	ring_push(&w->out, data, desc);
	show(w);
}

static bool room_may_have_come(void *context)
{
	struct gd_worker *w = context;
	return atomic_load(&w->channel.in->consumed) != w->out.tail;
}

/* Waits while the callbacks are behind. The warden sees `wanted` and stops the clock. */
static void *wait_for_room(struct gd_worker *w, size_t size)
{
	struct outbox *out = w->channel.out;
	for (;;) {
		ring_release(&w->out, atomic_load_explicit(&w->channel.in->consumed, memory_order_acquire));
		void *data = ring_reserve(&w->out, size);
		if (data) {
			atomic_store_explicit(&out->wanted, 0, memory_order_relaxed);
			w->now_ns = clock_now_ns(); /* the next task does not begin before this */
			return data;
		}
		atomic_store(&out->wanted, size + 1);
		channel_sleep(&w->channel, room_may_have_come, w);
	}
}

static void *room(struct gd_worker *w, size_t size)
{
	void *data = ring_reserve(&w->out, size);
	return data ? data : wait_for_room(w, size);
}

/* Publishes a record with words for a payload. Words that would not fit into an empty arena are cut. */
static void publish_words(struct gd_worker *w, const char *words, struct ring_desc desc)
{
	desc.size = strnlen(words, w->out.arena_size);
	void *data = room(w, desc.size);
	memcpy(data, words, desc.size);
	publish(w, data, desc);
}

void worker_tell(struct gd_worker *w, enum ring_kind kind, int code, const char *words)
{
	publish_words(w, words, (struct ring_desc){.kind = (uint16_t)kind, .code = code, .end_ns = clock_now_ns()});
}

void worker_mark(struct gd_worker *w, struct ring_desc desc)
{
	publish(w, room(w, 0), desc);
}

/* ---- Answers ------------------------------------------------------------ */

static void item_finish(struct item *item)
{
	if (item->on_heap)
		free(item->data);
	if (item->words)
		free(item->words);
	if (item->result.fd >= 0)
		parcel_finish(&item->result);
	if (item->payload.fd >= 0)
		parcel_finish(&item->payload);
	item->data = NULL;
	item->size = 0;
	item->words = NULL;
	item->code = 0;
	item->on_heap = false;
	item->answer = ANSWER_NONE;
}

/* Drops the answer given so far; the task's bytes stay. */
static void item_forget(struct item *item)
{
	struct parcel payload = item->payload;
	item->payload = PARCEL_NONE;
	item_finish(item);
	item->payload = payload;
}

/* A failure's words go on the heap: room in the arena is for results. */
static void item_fail(struct item *item, int code, const char *words)
{
	item_forget(item);
	item->answer = ANSWER_FAILURE;
	item->code = code < 0 ? code : -EIO;
	item->words = strdup(words); /* without memory, the code must do */
}

void worker_fail_item(struct gd_worker *w, size_t i, int code, const char *words)
{
	item_fail(&w->items[i], code, words);
}

static void publish_failure(struct gd_worker *w, struct item *item)
{
	publish_words(w, item->words ? item->words : "",
		(struct ring_desc){
			.kind = RING_DONE,
			.flags = item->desc.flags & RING_SKIPPED,
			.id = item->desc.id,
			.attempt = item->desc.attempt,
			.start_ns = item->desc.start_ns,
			.end_ns = w->now_ns,
			.code = item->code,
		});
}

static void publish_result(struct gd_worker *w, struct item *item)
{
	uint16_t flags = 0;
	void *data = item->data;
	if (item->result.fd >= 0) {
		int r = parcel_seal(&item->result, item->size);
		if (r >= 0)
			r = parcel_send(&item->result, w->fds.socket, true);
		if (r < 0) {
			char words[128];
			snprintf(words, sizeof(words), "the result of %zu bytes could not be sent: %s", item->size,
				error_words(r));
			item_fail(item, r, words);
			publish_failure(w, item);
			return;
		}
		flags = RING_EXTERNAL;
		data = room(w, 0);
	} else if (item->on_heap || !data) {
		data = room(w, item->size);
		if (item->size)
			memcpy(data, item->data, item->size);
	}
	struct ring_desc *d = ring_take(&w->out, data, flags ? 0 : item->size);
	d->kind = RING_DONE;
	d->flags = flags;
	d->id = item->desc.id;
	d->attempt = item->desc.attempt;
	d->size = item->size;
	d->code = 0;
	d->start_ns = item->desc.start_ns;
	d->end_ns = w->now_ns;
	if (w->ops->process_batch)
		show(w); /* the hook may go on for long */
	else
		show_at_end(w);
}

void worker_settle(struct gd_worker *w)
{
	struct item *item = &w->items[w->settled];
	if (item->answer == ANSWER_FAILURE)
		publish_failure(w, item);
	else
		publish_result(w, item);
	w->settled++;
	atomic_store_explicit(&w->channel.out->ended, w->next + w->settled, memory_order_release);
	item_finish(item);
}

/* Room for the i-th answer: in place if it is its turn, else aside. */
static void *answer_reserve(struct gd_worker *w, size_t i, size_t size)
{
	struct item *item = &w->items[i];
	if (item->answer != ANSWER_NONE)
		item_forget(item);
	void *data;
	if (size > CHANNEL_IN_PLACE) {
		if (parcel_create(size, &item->result) < 0)
			return NULL;
		data = item->result.data;
	} else if (i == w->settled) {
		data = room(w, size);
	} else {
		data = malloc(size ? size : 1);
		if (!data)
			return NULL;
		item->on_heap = true;
	}
	item->answer = ANSWER_RESULT;
	item->data = data;
	item->size = size;
	return data;
}

void *gd_worker_result_reserve(struct gd_worker *w, size_t size)
{
	if (!w->in_hand || w->settled > 0)
		return NULL;
	interrupt_defer(w);
	void *data = answer_reserve(w, 0, size);
	interrupt_resume(w);
	return data;
}

int gd_worker_result(struct gd_worker *w, const void *data, size_t size)
{
	if (!w->in_hand || w->settled > 0)
		return -EINVAL;
	interrupt_defer(w);
	void *room_for_it = answer_reserve(w, 0, size);
	if (room_for_it && size)
		memcpy(room_for_it, data, size);
	interrupt_resume(w);
	return room_for_it ? 0 : gd_worker_fail(w, -ENOMEM, "no memory for a result of %zu bytes", size);
}

int gd_worker_fail(struct gd_worker *w, int code, const char *format, ...)
{
	va_list args;
	interrupt_defer(w);
	va_start(args, format);
	vsnprintf(w->words, sizeof(w->words), format, args);
	va_end(args);
	interrupt_resume(w);
	return code;
}

/* In a batch, answers leave as soon as it is their turn. */
static void settle_answered(struct gd_worker *w)
{
	w->now_ns = clock_now_ns();
	while (w->settled < w->in_hand && w->items[w->settled].answer != ANSWER_NONE)
		worker_settle(w);
}

int gd_worker_batch_result(struct gd_worker *w, size_t i, const void *data, size_t size)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	interrupt_defer(w);
	void *room_for_it = answer_reserve(w, i, size);
	if (room_for_it && size)
		memcpy(room_for_it, data, size);
	if (room_for_it)
		settle_answered(w);
	interrupt_resume(w);
	return room_for_it ? 0 : -ENOMEM;
}

int gd_worker_batch_fail(struct gd_worker *w, size_t i, int code, const char *format, ...)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	char words[WORDS_MAX];
	interrupt_defer(w);
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	item_fail(&w->items[i], code, words);
	settle_answered(w);
	interrupt_resume(w);
	return code;
}
