/* SPDX-License-Identifier: MIT */
#include "pool/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "pool/crash_handler.h"
#include "pool/interrupt.h"
#include "pool/worker_private.h"

#define NAP_MIN_NS 20000 /* the kernel adds its timer slack, 50 µs by default */
#define NAP_MAX_NS 160000
#define NAP_FOR    256 /* tasks expected during a nap */

/* Does not flush all streams: a thread of the hook may hold the lock of another stream while it waits for input. */
static void flush_output(void)
{
	fflush(stdout);
	fflush(stderr);
}

/* ---- Queries by hooks --------------------------------------------------- */

void *gd_worker_context(const struct gd_worker *w)
{
	return w->ops->context;
}

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
	struct gd_bytes value;
	return settings_find(w->settings, key, &value) ? value.data : otherwise;
}

int gd_worker_setting_bytes(const struct gd_worker *w, const char *key, struct gd_bytes *ret)
{
	return settings_find(w->settings, key, ret) ? 0 : -ENOENT;
}

uint64_t gd_worker_task_id(const struct gd_worker *w, size_t i)
{
	return i < w->in_hand ? w->items[i].desc.id : UINT64_MAX;
}

int gd_worker_attempt(const struct gd_worker *w, size_t i)
{
	return i < w->in_hand ? (int)w->items[i].desc.attempt : 0;
}

bool gd_worker_cancelled(const struct gd_worker *w, size_t i)
{
	if (w->in_hand == 0) /* in setup; cleanup is not cancelled, only limited in time */
		return !w->cleaning && atomic_load_explicit(&w->channel.in->ending, memory_order_acquire) != 0;
	return i < w->in_hand && inbox_mark(w->channel.in, w->next + i) != 0;
}

int gd_worker_cancel_reason(const struct gd_worker *w, size_t i)
{
	if (!gd_worker_cancelled(w, i))
		return 0;
	bool timed_out = w->in_hand > 0 ? inbox_mark(w->channel.in, w->next + i) & RING_MARK_TIMED_OUT
					: atomic_load(&w->channel.in->ending) == SETUP_TIMED_OUT;
	return timed_out ? -ETIMEDOUT : -ECANCELED;
}

/* ---- The loop ----------------------------------------------------------- */

static bool something_to_do(void *context)
{
	struct gd_worker *w = context;
	return atomic_load(&w->channel.in->head) > w->next || atomic_load(&w->channel.in->closing);
}

/*
 * Tasks came and the owner has not waited for answers, so it is busy handing out more. The worker naps before it checks
 * again: by then many tasks have come, without the cost of a wake-up. The owner ends the nap when it waits, so round
 * trips take no longer. Naps get longer until enough tasks come during one, and shorter if the owner has begun to wait
 * meanwhile.
 */
static void nap(struct gd_worker *w)
{
	uint64_t waits = atomic_load_explicit(&w->channel.in->waits, memory_order_relaxed);
	bool flows = w->next > w->waited_at && waits == w->waited_waits;
	w->waited_at = w->next;
	w->waited_waits = waits;
	if (!flows)
		return;
	if (w->nap_ns < NAP_MIN_NS)
		w->nap_ns = NAP_MIN_NS;
	if (!channel_nap(&w->channel, w->nap_ns, waits))
		w->nap_ns /= 2;
	else if (atomic_load_explicit(&w->channel.in->head, memory_order_relaxed) - w->next < NAP_FOR &&
		 w->nap_ns < NAP_MAX_NS)
		w->nap_ns += w->nap_ns / 4;
}

/* Sleeps until there is a task. False when the owner closes instead. */
static bool wait_for_task(struct gd_worker *w)
{
	struct inbox *in = w->channel.in;
	worker_before_wait(w);
	nap(w);
	while (atomic_load(&in->head) <= w->next) {
		if (atomic_load(&in->closing) && atomic_load(&in->head) <= w->next)
			return false;
		flush_output();
		channel_sleep(&w->channel, something_to_do, w);
	}
	return true;
}

/* How many of the next tasks make a batch: they have the same time limit, and none must be processed alone. */
static size_t batch_size(const struct gd_worker *w)
{
	size_t most = w->head - w->next < w->max_batch ? (size_t)(w->head - w->next) : w->max_batch;
	const struct ring_desc *first = ring_at(inbox_descs(w->channel.in), w->next);
	size_t n = 1;
	for (; n < most && !(first->flags & RING_ALONE); n++) {
		const struct ring_desc *d = ring_at(inbox_descs(w->channel.in), w->next + n);
		if (d->limit_ns != first->limit_ns || d->flags & RING_ALONE)
			break;
	}
	return n;
}

/*
 * Publishes that it begins the next tasks, then checks whether it still may: see ring_take_back(). Returns how many; 0
 * when the owner closes.
 */
static size_t begin(struct gd_worker *w)
{
	struct inbox *in = w->channel.in;
	struct outbox *out = w->channel.out;
	for (;;) {
		if (w->head <= w->next) {
			w->round = atomic_load_explicit(&in->round, memory_order_acquire);
			w->head = atomic_load_explicit(&in->head, memory_order_acquire);
			/* Not the end of the last task: if this process did not run, tasks may have come much later. */
			w->now_ns = clock_recent_ns(&w->clock);
		}
		if (w->head <= w->next) {
			if (w->owes_notice) {
				atomic_thread_fence(memory_order_seq_cst);
				worker_notify(w);
			}
			if (!wait_for_task(w))
				return 0;
			continue;
		}
		/* If these records change meanwhile, so does the round. */
		size_t n = w->max_batch > 1 ? batch_size(w) : 1;
		atomic_store_explicit(&out->begun_ns, w->now_ns, memory_order_relaxed);
		bool ours = ring_begin(&out->begun, w->next + n, &in->round, w->round);
		if (w->owes_notice)
			worker_notify(w); /* after the fence in ring_begin() */
		if (ours)
			return n;
		atomic_store(&out->begun, w->next);
		w->head = w->next; /* check again */
	}
}

/* Takes the i-th task: a copy of its record, and its bytes in place. -ECANCELED: it must not begin. */
static int take(struct gd_worker *w, size_t i)
{
	/* After the fence in ring_begin(): the owner relies on this, because it sets the mark, then reads `begun`. */
	bool cancelled = inbox_mark(w->channel.in, w->next + i) & RING_MARK_CANCELLED;
	if (cancelled && i > 0)
		return -ECANCELED;
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
	if (cancelled)
		return -ECANCELED;
	if (w->brief->announce)
		worker_mark(w, (struct ring_desc){
				       .kind = RING_STARTED,
				       .id = item->desc.id,
				       .attempt = item->desc.attempt,
				       .start_ns = w->now_ns,
			       });
	return 0;
}

/* A hook that returned because its task was cancelled may not have answered: that is not an empty result. */
static bool was_cancelled(const struct gd_worker *w, size_t i)
{
	return inbox_mark(w->channel.in, w->next + i) & RING_MARK_CANCELLED;
}

static void process(struct gd_worker *w)
{
	if (w->failure.given)
		failure_clear(&w->failure);
	bool batch = w->ops->process_batch;
	interrupt_allow(w, INTERRUPT_TASKS);
	int r = batch ? w->ops->process_batch(w, w->state, w->tasks, w->in_hand)
		      : w->ops->process(w, w->state, &w->tasks[0]);
	interrupt_forbid(w);
	w->now_ns = clock_recent_ns(&w->clock);
	if (r != 0)
		r = failure_of_hook(&w->failure, batch ? "process_batch" : "process", r);
	while (w->settled < w->in_hand) {
		struct item *item = &w->items[w->settled];
		/* An error of a batch applies to its tasks without their own answer. */
		if (r < 0 && (item->answer == ANSWER_NONE || !batch))
			worker_fail_item(w, w->settled, r, &w->failure);
		else if (item->answer == ANSWER_NONE && was_cancelled(w, w->settled))
			worker_fail_item(w, w->settled, -ECANCELED, failure_cancelled(&w->failure));
		worker_settle(w);
	}
}

/* The task in hand does not begin: it was cancelled, or its bytes were not received. */
static void refuse(struct gd_worker *w, int code)
{
	struct failure *failure = NULL;
	if (code == -ECANCELED)
		w->items[0].desc.flags |= RING_SKIPPED;
	else
		failure = failure_new("the task's %llu bytes could not be received: %s",
			(unsigned long long)w->items[0].desc.size, error_words(code));
	worker_fail_item(w, 0, code, failure);
	worker_settle(w);
}

/*
 * Processes the first of `n` tasks that have begun; returns the number of tasks processed. A cancelled task ends the
 * batch: it and the tasks after it have not begun after all, so that its answer is not delayed by the tasks before it.
 */
static size_t work_on(struct gd_worker *w, size_t n)
{
	size_t taken = 0;
	int r = 0;
	while (taken < n && (r = take(w, taken)) >= 0)
		taken++;
	bool withdraws = taken > 0 && r == -ECANCELED;
	if (withdraws) {
		atomic_store(&w->channel.out->begun, w->next + taken);
		r = 0;
	}
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
	return withdraws ? n : taken;
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
	w->max_batch = !ops->process_batch ? 1 : ops->max_batch ? ops->max_batch : WORKER_DEFAULT_BATCH;
	if (w->max_batch > RING_DEPTH)
		w->max_batch = RING_DEPTH;
	int r = channel_map(&w->channel, fds->inbox, fds->outbox, false);
	if (r < 0)
		return r;
	r = brief_read(w->channel.in, &w->brief);
	if (r >= 0)
		r = settings_map(fds->settings, &w->settings);
	if (r < 0)
		return r;
	w->failure.parcel = PARCEL_NONE;
	ring_init(&w->out, outbox_descs(w->channel.out), outbox_arena(w->channel.out), CHANNEL_ARENA);
	w->items = calloc(w->max_batch, sizeof(*w->items));
	w->tasks = calloc(w->max_batch, sizeof(*w->tasks));
	if (!w->items || !w->tasks)
		return -ENOMEM;
	for (size_t i = 0; i < w->max_batch; i++)
		w->items[i].payload = w->items[i].result = PARCEL_NONE;
	close(fds->inbox);
	close(fds->outbox);
	close(fds->settings);
	r = crash_handler_install(w->channel.out);
	return r < 0 ? r : interrupt_install(w);
}

/* The process ends next. */
static void leave(struct gd_worker *w)
{
	if (w->ops->on_leave)
		w->ops->on_leave(w);
	flush_output();
}

static int set_up(struct gd_worker *w)
{
	if (!w->ops->setup)
		return 0;
	interrupt_allow(w, INTERRUPT_SETUP);
	interrupt_deferred(w); /* setup may have been asked to end before the handler was installed */
	return w->ops->setup(w, &w->state);
}

/* Everything after setup, which has returned r. Returns the exit status. */
static int run_after_setup(struct gd_worker *w, int r)
{
	const struct gd_worker_ops *ops = w->ops;
	interrupt_forbid(w);
	if (r != 0) {
		worker_tell(w, RING_SETUP_FAILED, failure_of_hook(&w->failure, "setup", r));
		leave(w);
		return 1;
	}
	flush_output();
	worker_mark(
		w, (struct ring_desc){.kind = RING_READY, .attempt = (uint32_t)w->max_batch, .end_ns = clock_now_ns()});
	w->now_ns = clock_now_ns();
	work(w);

	failure_clear(&w->failure);
	w->cleaning = true;
	r = ops->cleanup ? ops->cleanup(w, w->state) : 0;
	if (r != 0)
		worker_tell(w, RING_CLEANUP_FAILED, failure_of_hook(&w->failure, "cleanup", r));
	flush_output();
	worker_mark(w, (struct ring_desc){.kind = RING_CLEANED});
	leave(w);
	return 0;
}

/* Memory is freed with the process. */
int worker_run(const struct gd_worker_ops *ops, const struct worker_fds *fds)
{
	struct gd_worker *w = calloc(1, sizeof(*w));
	if (!w || worker_init(w, ops, fds) < 0)
		return 1;
	return run_after_setup(w, set_up(w));
}

void gd_worker_continue(struct gd_worker *w, void *state, int result)
{
	w->state = state;
	_exit(run_after_setup(w, result));
}
