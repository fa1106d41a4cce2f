/* SPDX-License-Identifier: MIT */
#include "pool/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "pool/brief.h"
#include "pool/channel.h"
#include "pool/crash.h"
#include "pool/parcel.h"

#define DEFAULT_BATCH 32
#define WORDS_MAX     1024

enum answer_kind {
	ANSWER_NONE, /* the hook has not said anything yet */
	ANSWER_RESULT,
	ANSWER_FAILURE,
};

/* A task in hand, and what the hook says about it. */
struct item {
	struct ring_desc desc;
	struct parcel payload; /* where the task came as one */
	enum answer_kind answer;
	struct parcel result; /* where the result is to leave as one */
	void *data;           /* result: in the arena, in the parcel, or on the heap */
	size_t size;
	bool on_heap; /* data is ours to free: an answer out of turn */
	int code;
	char *words;
};

struct gd_worker {
	const struct gd_worker_ops *ops;
	void *state; /* setup's */
	struct worker_fds fds;
	struct channel channel;
	const struct brief *brief;
	struct ring out;
	bool owes_notice;      /* a record was published, and the dispatcher perhaps not woken for it */
	uint64_t answered_arm; /* the last of the dispatcher's sleeps that we have ended */

	uint64_t next;  /* sequence number of the first task in hand, else of the next one */
	uint64_t head;  /* of the inbox, when we looked last */
	uint64_t round; /* that it belongs to */
	size_t in_hand;
	size_t settled; /* of those in hand: their record is published */
	size_t max_batch;
	struct item *items;
	struct gd_bytes *tasks;
	uint64_t now_ns; /* end of the last task, or of the last wait */
	struct clock_cache clock;

	char words[WORDS_MAX]; /* of gd_fail() in setup, cleanup and process */
};

/* Not all streams: a thread of the hook's own may hold another one's lock while it waits for input. */
static void flush_output(void)
{
	fflush(stdout);
	fflush(stderr);
}

/* ---- Publishing --------------------------------------------------------- */

/* Wakes a dispatcher that sleeps. After a fence: the record must be visible to one whose flag we do not see. */
static void notify(struct gd_worker *w)
{
	w->owes_notice = false;
	uint64_t arm = atomic_load_explicit(&w->channel.in->armed, memory_order_relaxed);
	if (arm == 0 || arm == w->answered_arm)
		return;
	w->answered_arm = arm;
	uint64_t one = 1;
	/* EAGAIN: the counter is full, so the dispatcher is awake or about to be. */
	if (write(w->fds.event, &one, sizeof(one)) < 0 && errno != EAGAIN)
		_exit(1);
}

/* What was put into the ring is shown. */
static void show(struct gd_worker *w)
{
	atomic_store_explicit(&w->channel.out->head, w->out.head, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	notify(w);
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

static void publish_words(struct gd_worker *w, enum ring_kind kind, int code, const char *words)
{
	size_t size = strlen(words);
	void *data = room(w, size);
	memcpy(data, words, size);
	publish(w, data,
		(struct ring_desc){.kind = (uint16_t)kind, .code = code, .size = size, .end_ns = clock_now_ns()});
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

static void publish_failure(struct gd_worker *w, struct item *item)
{
	const char *words = item->words ? item->words : "";
	size_t size = strlen(words);
	void *data = room(w, size);
	memcpy(data, words, size);
	publish(w, data,
		(struct ring_desc){
			.kind = RING_DONE,
			.id = item->desc.id,
			.attempt = item->desc.attempt,
			.start_ns = item->desc.start_ns,
			.end_ns = w->now_ns,
			.size = size,
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

/* The record of the next task in hand; its answer is final. */
static void settle_one(struct gd_worker *w)
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

void *gd_result_reserve(struct gd_worker *w, size_t size)
{
	return w->in_hand && w->settled == 0 ? answer_reserve(w, 0, size) : NULL;
}

int gd_result(struct gd_worker *w, const void *data, size_t size)
{
	if (!w->in_hand || w->settled > 0)
		return -EINVAL;
	void *room_for_it = answer_reserve(w, 0, size);
	if (!room_for_it)
		return gd_fail(w, -ENOMEM, "no memory for a result of %zu bytes", size);
	if (size)
		memcpy(room_for_it, data, size);
	return 0;
}

int gd_fail(struct gd_worker *w, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(w->words, sizeof(w->words), format, args);
	va_end(args);
	return code;
}

/* In a batch, answers leave as soon as it is their turn. */
static void settle_answered(struct gd_worker *w)
{
	w->now_ns = clock_now_ns();
	while (w->settled < w->in_hand && w->items[w->settled].answer != ANSWER_NONE)
		settle_one(w);
}

int gd_batch_result(struct gd_worker *w, size_t i, const void *data, size_t size)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	void *room_for_it = answer_reserve(w, i, size);
	if (!room_for_it)
		return -ENOMEM;
	if (size)
		memcpy(room_for_it, data, size);
	settle_answered(w);
	return 0;
}

int gd_batch_fail(struct gd_worker *w, size_t i, int code, const char *format, ...)
{
	if (i >= w->in_hand || i < w->settled)
		return -EINVAL;
	char words[WORDS_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	item_fail(&w->items[i], code, words);
	settle_answered(w);
	return code;
}

/* ---- What a hook may ask ------------------------------------------------ */

int gd_worker_gpu(const struct gd_worker *w)
{
	return w->brief->gpu;
}

int gd_worker_device(const struct gd_worker *w)
{
	return w->brief->device;
}

int gd_worker_slot(const struct gd_worker *w)
{
	return w->brief->slot;
}

int64_t gd_worker_seed(const struct gd_worker *w)
{
	return w->brief->seed;
}

const char *gd_worker_setting(const struct gd_worker *w, const char *key, const char *otherwise)
{
	const char *value = brief_setting(w->brief, key);
	return value ? value : otherwise;
}

uint64_t gd_worker_task_id(const struct gd_worker *w, size_t i)
{
	return i < w->in_hand ? w->items[i].desc.id : UINT64_MAX;
}

int gd_worker_attempt(const struct gd_worker *w, size_t i)
{
	return i < w->in_hand ? (int)w->items[i].desc.attempt : 0;
}

bool gd_cancelled(const struct gd_worker *w)
{
	if (!w->in_hand)
		return false;
	uint64_t task = w->next + w->settled;
	return atomic_load_explicit(&w->channel.in->timed_out, memory_order_relaxed) > task ||
	       atomic_load_explicit(&w->channel.in->cancelled, memory_order_relaxed) > task;
}

/* ---- The loop ----------------------------------------------------------- */

static bool something_to_do(void *context)
{
	struct gd_worker *w = context;
	return atomic_load(&w->channel.in->head) > w->next || atomic_load(&w->channel.in->closing);
}

/* Sleeps until there is a task. False when the dispatcher closes instead. */
static bool wait_for_task(struct gd_worker *w)
{
	struct inbox *in = w->channel.in;
	while (atomic_load(&in->head) <= w->next) {
		if (atomic_load(&in->closing) && atomic_load(&in->head) <= w->next)
			return false;
		flush_output();
		channel_sleep(&w->channel, something_to_do, w);
	}
	return true;
}

/*
 * Says that it begins the next tasks, then looks whether it still may: see
 * ring_take_back(). Returns how many; 0 when the dispatcher closes.
 */
static size_t begin(struct gd_worker *w)
{
	struct inbox *in = w->channel.in;
	struct outbox *out = w->channel.out;
	for (;;) {
		if (w->head <= w->next) {
			w->round = atomic_load_explicit(&in->round, memory_order_acquire);
			w->head = atomic_load_explicit(&in->head, memory_order_acquire);
			/* Not the end of the last task: these may have come much later, if we were kept from looking.
			 */
			w->now_ns = clock_recent_ns(&w->clock);
		}
		if (w->head <= w->next) {
			if (w->owes_notice) {
				atomic_thread_fence(memory_order_seq_cst);
				notify(w);
			}
			if (!wait_for_task(w))
				return 0;
			continue;
		}
		size_t n = w->head - w->next < w->max_batch ? (size_t)(w->head - w->next) : w->max_batch;
		atomic_store_explicit(&out->begun_ns, w->now_ns, memory_order_relaxed);
		atomic_store_explicit(&out->begun, w->next + n, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (w->owes_notice)
			notify(w);
		if (atomic_load_explicit(&in->round, memory_order_acquire) == w->round)
			return n;
		atomic_store(&out->begun, w->next);
		w->head = w->next; /* look again */
	}
}

/* Takes the i-th task in hand: a copy of its record, and its bytes in place. */
static int take(struct gd_worker *w, size_t i)
{
	struct item *item = &w->items[i];
	item->desc = *ring_at(inbox_descs(w->channel.in), w->next + i);
	item->desc.start_ns = w->now_ns;
	w->tasks[i] =
		(struct gd_bytes){.data = inbox_arena(w->channel.in) + item->desc.offset, .size = item->desc.size};
	if (item->desc.flags & RING_EXTERNAL) {
		int r = parcel_receive(w->fds.socket, item->desc.size, true, &item->payload);
		if (r < 0)
			return r;
		w->tasks[i].data = item->payload.data;
	}
	if (w->brief->announce)
		publish(w, room(w, 0),
			(struct ring_desc){
				.kind = RING_STARTED,
				.id = item->desc.id,
				.attempt = item->desc.attempt,
				.start_ns = w->now_ns,
			});
	return 0;
}

static void process(struct gd_worker *w)
{
	w->words[0] = '\0';
	int r = w->ops->process_batch ? w->ops->process_batch(w, w->state, w->tasks, w->in_hand)
				      : w->ops->process(w, w->state, &w->tasks[0]);
	w->now_ns = clock_recent_ns(&w->clock);
	while (w->settled < w->in_hand) {
		struct item *item = &w->items[w->settled];
		/* An error of a batch is for those without an answer of their own. */
		if (r < 0 && (item->answer == ANSWER_NONE || !w->ops->process_batch))
			item_fail(item, r, w->words);
		settle_one(w);
	}
}

static void refuse(struct gd_worker *w, int code)
{
	char words[128];
	snprintf(words, sizeof(words), "the task's %llu bytes could not be received: %s",
		(unsigned long long)w->items[0].desc.size, error_words(code));
	item_fail(&w->items[0], code, words);
	settle_one(w);
}

/* Works on the first of `n` tasks that have begun; returns how many it has dealt with. */
static size_t work_on(struct gd_worker *w, size_t n)
{
	size_t taken = 0;
	int r = 0;
	while (taken < n && (r = take(w, taken)) >= 0)
		taken++;
	if (taken > 0) {
		w->in_hand = taken;
		process(w);
		w->next += taken;
		w->settled = 0;
	}
	if (r < 0) {
		w->items[0].desc = w->items[taken].desc;
		w->in_hand = 1;
		refuse(w, r);
		w->next++;
		w->settled = 0;
		taken++;
	}
	w->in_hand = 0;
	return taken;
}

static void work(struct gd_worker *w)
{
	for (;;) {
		size_t n = begin(w);
		if (n == 0)
			return;
		while (n > 0)
			n -= work_on(w, n);
	}
}

/* ---- Beginning and end -------------------------------------------------- */

static int worker_init(struct gd_worker *w, const struct gd_worker_ops *ops, const struct worker_fds *fds)
{
	w->ops = ops;
	w->fds = *fds;
	w->max_batch = !ops->process_batch ? 1 : ops->max_batch ? ops->max_batch : DEFAULT_BATCH;
	if (w->max_batch > RING_DEPTH)
		w->max_batch = RING_DEPTH;
	int r = channel_map(&w->channel, fds->inbox, fds->outbox, false);
	if (r < 0)
		return r;
	r = brief_read(w->channel.in, &w->brief);
	if (r < 0)
		return r;
	ring_init(&w->out, outbox_descs(w->channel.out), outbox_arena(w->channel.out), CHANNEL_ARENA);
	w->items = calloc(w->max_batch, sizeof(*w->items));
	w->tasks = calloc(w->max_batch, sizeof(*w->tasks));
	if (!w->items || !w->tasks)
		return -ENOMEM;
	for (size_t i = 0; i < w->max_batch; i++)
		w->items[i].payload = w->items[i].result = PARCEL_NONE;
	close(fds->inbox);
	close(fds->outbox);
	return crash_install(w->channel.out);
}

/* The process ends next: what was allocated goes with it. */
int worker_run(const struct gd_worker_ops *ops, const struct worker_fds *fds)
{
	struct gd_worker *w = calloc(1, sizeof(*w));
	if (!w || worker_init(w, ops, fds) < 0)
		return 1;

	int r = ops->setup ? ops->setup(w, &w->state) : 0;
	if (r < 0) {
		publish_words(w, RING_SETUP_FAILED, r, w->words);
		flush_output();
		return 1;
	}
	flush_output();
	atomic_store(&w->channel.out->ready, 1);
	publish(w, room(w, 0),
		(struct ring_desc){.kind = RING_READY, .attempt = (uint32_t)w->max_batch, .end_ns = clock_now_ns()});
	w->now_ns = clock_now_ns();
	work(w);

	w->words[0] = '\0';
	r = ops->cleanup ? ops->cleanup(w, w->state) : 0;
	if (r < 0)
		publish_words(w, RING_CLEANUP_FAILED, r, w->words);
	flush_output();
	publish(w, room(w, 0), (struct ring_desc){.kind = RING_CLEANED});
	return 0;
}

int gd_worker_main(const struct gd_worker_ops *ops)
{
	const char *protocol = getenv(WORKER_ENV);
	if (!protocol || strcmp(protocol, WORKER_PROTOCOL) != 0) {
		fprintf(stderr,
			"%s: this program is a worker of gpu_dispatch: it is started by a dispatcher "
			"(worker_argv of struct gd_options), not by hand\n",
			program_invocation_short_name);
		return 2;
	}
	unsetenv(WORKER_ENV);
	if (!ops || (!ops->process && !ops->process_batch)) {
		fprintf(stderr, "%s: gd_worker_main() needs ops with process or process_batch\n",
			program_invocation_short_name);
		return 2;
	}
	const struct worker_fds fds = {
		.inbox = WORKER_FIRST_FD,
		.outbox = WORKER_FIRST_FD + 1,
		.socket = WORKER_FIRST_FD + 2,
		.event = WORKER_FIRST_FD + 3,
	};
	for (int fd = WORKER_FIRST_FD; fd < WORKER_FIRST_FD + 4; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 1;
	int status = worker_run(ops, &fds);
	_exit(status);
}
