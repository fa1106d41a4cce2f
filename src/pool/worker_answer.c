/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "pool/interrupt.h"
#include "pool/worker_private.h"

/* ---- Publishing --------------------------------------------------------- */

void worker_notify_now(struct gd_worker *w, uint64_t arm)
{
	w->answered_arm = arm;
	uint64_t one = 1;
	/* EAGAIN: the counter is full, so the owner is awake or about to be. */
	if (write(w->fds.event, &one, sizeof(one)) < 0 && errno != EAGAIN)
		_exit(1);
}

/* Publishes the records in the ring. */
static void show(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->head, w->out.head, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	worker_notify(w);
}

/* The same for the last record of a task: begin() comes next and has its own fence. */
static void show_at_end(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->head, w->out.head, memory_order_release);
	w->owes_notice = true;
}

void worker_publish(struct gd_worker *w, const void *data, size_t in_arena, struct ring_desc desc)
{
	struct ring_desc *d = ring_take(&w->out, data, in_arena);
	desc.offset = d->offset;
	*d = desc;
	show(w);
}

static bool room_may_have_come(void *context)
{
	struct gd_worker *w = context;
	return atomic_load(&w->channel.in->consumed) != w->out.tail;
}

/* Waits while the callbacks are slow. The warden sees `wanted` and stops the clock. */
static void wait_for_callbacks(struct gd_worker *w, size_t size)
{
	worker_before_wait(w);
	atomic_store(&w->channel.out->wanted, size + 1);
	channel_sleep(&w->channel, room_may_have_come, w);
}

static void look_for_room(struct gd_worker *w)
{
	ring_release(&w->out, atomic_load_explicit(&w->channel.in->consumed, memory_order_acquire));
}

static void end_wait(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->wanted, 0, memory_order_relaxed);
	w->now_ns = clock_now_ns(); /* the next task does not begin before this */
}

__attribute__((noinline)) static void *wait_for_room(struct gd_worker *w, size_t size)
{
	for (;;) {
		look_for_room(w);
		void *data = ring_reserve(&w->out, size);
		if (data) {
			end_wait(w);
			return data;
		}
		wait_for_callbacks(w, size);
	}
}

void *worker_room(struct gd_worker *w, size_t size)
{
	void *data = ring_reserve(&w->out, size);
	return data ? data : wait_for_room(w, size);
}

void worker_wait_for_places(struct gd_worker *w, uint64_t until, size_t places)
{
	for (;;) {
		look_for_room(w);
		if (w->out.tail >= until && RING_DEPTH - (w->out.head - w->out.tail) >= places)
			break;
		wait_for_callbacks(w, 0);
	}
	end_wait(w);
}

int worker_send_parcel(struct gd_worker *w, const struct parcel *parcel)
{
	int r = parcel_send(parcel, w->fds.socket, false);
	if (r != -EAGAIN)
		return r;
	/* The socket is full because the callbacks are slow: as in wait_for_callbacks(), that is not the task's time.
	 */
	worker_before_wait(w);
	atomic_store(&w->channel.out->wanted, 1);
	r = parcel_send(parcel, w->fds.socket, true);
	end_wait(w);
	return r;
}

void worker_mark(struct gd_worker *w, struct ring_desc desc)
{
	worker_publish(w, worker_room(w, 0), 0, desc);
}

/*
 * desc: all fields except the payload. If the bytes cannot be sent, the failure is reported without them, and its
 * message states this.
 */
static void publish_failure(struct gd_worker *w, struct failure *f, struct ring_desc desc)
{
	if (f->parcel.fd >= 0) {
		int r = worker_send_parcel(w, &f->parcel);
		if (r < 0)
			failure_lose_bytes(f, f->size, r);
	}
	bool external = f->parcel.fd >= 0;
	size_t words = strlen(f->words);
	size_t in_arena = external || f->size == 0 ? words : ring_aligned(words) + f->size;
	char *data = worker_room(w, in_arena);
	memcpy(data, f->words, words);
	if (!external && f->size > 0)
		memcpy(data + ring_aligned(words), f->data, f->size);
	desc.flags |= external ? RING_EXTERNAL : 0;
	desc.words = (uint32_t)words;
	desc.size = f->size;
	worker_publish(w, data, in_arena, desc);
}

void worker_tell(struct gd_worker *w, enum ring_kind kind, int code)
{
	publish_failure(
		w, &w->failure, (struct ring_desc){.kind = (uint16_t)kind, .code = code, .end_ns = clock_now_ns()});
}

/* ---- Answers ------------------------------------------------------------ */

__attribute__((noinline)) static void item_free(struct item *item)
{
	if (item->on_heap)
		free(item->data);
	if (item->owns_failure)
		failure_free(item->failure);
	parcel_finish(&item->result);
	parcel_finish(&item->payload);
}

static inline void item_finish(struct item *item)
{
	if (item->on_heap || item->owns_failure || item->result.fd >= 0 || item->payload.fd >= 0)
		item_free(item);
	item->data = NULL;
	item->size = 0;
	item->failure = NULL;
	item->owns_failure = false;
	item->code = 0;
	item->on_heap = false;
	item->answer = ANSWER_NONE;
}

/* Drops the answer given so far; the task's bytes stay. */
__attribute__((noinline)) static void item_forget(struct item *item)
{
	struct parcel payload = item->payload;
	item->payload = PARCEL_NONE;
	item_finish(item);
	item->payload = payload;
}

void worker_fail_item(struct gd_worker *w, size_t i, int code, struct failure *failure)
{
	struct item *item = &w->items[i];
	item_forget(item);
	item->answer = ANSWER_FAILURE;
	item->code = code;
	item->failure = failure;
	item->owns_failure = failure && failure != &w->failure;
}

__attribute__((noinline)) static void publish_failed_item(struct gd_worker *w, const struct item *item)
{
	struct failure none = {.parcel = PARCEL_NONE};
	publish_failure(w, item->failure ? item->failure : &none,
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

/* Publishes the record of a result that is in the arena at `data` or, with RING_EXTERNAL, in the socket. */
static inline void publish_done(struct gd_worker *w, const struct item *item, const void *data, uint16_t flags)
{
	struct ring_desc *d = ring_take(&w->out, data, flags & RING_EXTERNAL ? 0 : item->size);
	d->kind = RING_DONE;
	d->flags = flags;
	d->id = item->desc.id;
	d->attempt = item->desc.attempt;
	d->size = item->size;
	d->words = 0;
	d->code = 0;
	d->start_ns = item->desc.start_ns;
	d->end_ns = w->now_ns;
	if (w->ops->process_batch)
		show(w); /* the hook may continue for a long time */
	else
		show_at_end(w);
}

__attribute__((noinline)) static void publish_parcel(struct gd_worker *w, struct item *item)
{
	int r = parcel_seal(&item->result, item->size);
	if (r >= 0)
		r = worker_send_parcel(w, &item->result);
	if (r >= 0) {
		publish_done(w, item, worker_room(w, 0), RING_EXTERNAL);
		return;
	}
	worker_fail_item(w, w->settled, r,
		failure_new("the result of %zu bytes could not be sent: %s", item->size, error_words(r)));
	publish_failed_item(w, item);
}

/* A result that is not yet in its final place. */
__attribute__((noinline)) static void publish_copy(struct gd_worker *w, const struct item *item)
{
	void *data = worker_room(w, item->size);
	if (item->size)
		memcpy(data, item->data, item->size);
	publish_done(w, item, data, 0);
}

void worker_settle(struct gd_worker *w)
{
	struct item *item = &w->items[w->settled];
	if (item->answer == ANSWER_FAILURE)
		publish_failed_item(w, item);
	else if (item->result.fd >= 0)
		publish_parcel(w, item);
	else if (item->on_heap || !item->data)
		publish_copy(w, item);
	else
		publish_done(w, item, item->data, 0);
	w->settled++;
	atomic_store_explicit(&w->channel.out->ended, w->next + w->settled, memory_order_release);
	item_finish(item);
}

void *worker_result_room(struct gd_worker *w)
{
	const struct item *item = &w->items[w->settled];
	bool in_arena =
		w->settled < w->in_hand && item->answer == ANSWER_RESULT && !item->on_heap && item->result.fd < 0;
	return in_arena ? item->data : NULL;
}

/* Space outside of the arena, for a result that is too large for it or whose turn has not come. */
__attribute__((noinline)) static void *reserve_aside(struct item *item, size_t size)
{
	if (size > CHANNEL_IN_PLACE)
		return parcel_create(size, &item->result) < 0 ? NULL : item->result.data;
	void *data = malloc(size ? size : 1);
	item->on_heap = data != NULL;
	return data;
}

/* Space for the i-th answer: in place if it is its turn, else elsewhere. */
static inline void *answer_reserve(struct gd_worker *w, size_t i, size_t size)
{
	struct item *item = &w->items[i];
	if (item->answer != ANSWER_NONE)
		item_forget(item);
	bool in_place = size <= CHANNEL_IN_PLACE && i == w->settled;
	void *data = in_place ? worker_room(w, size) : reserve_aside(item, size);
	if (!data)
		return NULL;
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
	return room_for_it ? 0 : gd_worker_fail(w, -ENOMEM, "not enough memory for a result of %zu bytes", size);
}

void worker_settle_answered(struct gd_worker *w)
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
		worker_settle_answered(w);
	interrupt_resume(w);
	return room_for_it ? 0 : -ENOMEM;
}
