/* SPDX-License-Identifier: MIT */
/* Handles orders from a runner or from `gpuq cancel`. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "queue/journal/job.h"
#include "queue/keeper/keeper_job.h"
#include "queue/keeper/keeper_private.h"

static int start_job(struct keeper *k, const struct keeper_order *order, char *payload)
{
	int r = attempt_init(&k->attempt, order, payload);
	k->attempt.front = k->lease ? k->lease->front : NULL;
	if (r == 0)
		r = keeper_open(k);
	/* The runner wrote the order for the old place: the folder for logs must not be created there again. */
	if (r == 0 && !k->lease && journal_is_moved(k->journal))
		r = -ESTALE;
	/* Before the job can start: if the journal loses its `start`, this file still names its keeper. */
	if (r == 0)
		r = keeper_job_write(k->lock_fd, order->id, k->attempt.gpus, order->num_gpus);
	if (r == 0)
		r = attempt_prepare(&k->attempt, k->journal, k->name, &k->cache);
	if (r < 0)
		return r;
	k->attempt.missing = ATTEMPT_PROCESS;
	k->reaped = k->stuck = k->cancel_asked = false;
	k->killed_ns = k->paused_ns = 0;
	k->reason = NULL;
	k->peak_mem_mb = -1;
	k->gpu_full = false;
	k->power_span_ms = 0;
	k->idle_at_ms = 0;
	/* Before the job can start: from then on the runner relies on the claim. */
	keeper_claim_take(&k->claim, k->attempt.claim);
	if (k->lease)
		keeper_lease_starting(k);
	k->started_ns = clock_now_ns();
	pid_t pid = attempt_start(&k->attempt, k->journal, k->name, &k->page);
	if (pid < 0) {
		keeper_claim_leave(&k->claim);
		attempt_log_remove(&k->attempt.log);
		return (int)pid;
	}
	k->pid = pid;
	k->phase = KEEPER_RUNNING;
	k->warned = false;
	k->warn_ns = order->timeout_ms && order->warn_signal && order->warn_before_ms < order->timeout_ms
			     ? k->started_ns + (uint64_t)(order->timeout_ms - order->warn_before_ms) * NS_PER_MS
			     : 0;
	k->deadline_ns = order->timeout_ms ? k->started_ns + (uint64_t)order->timeout_ms * NS_PER_MS : 0;
	if (k->lease && k->page.stage == ATTEMPT_STARTED)
		keeper_lease_started(k);
	return 0;
}

static void on_order_to_end(struct keeper *k, uint32_t kind)
{
	/* A lease is never started again: its end is an ordinary end. */
	bool interrupt = kind == KEEPER_ORDER_INTERRUPT && !k->lease;
	/* The job has ended: only the end of the allocation changes how its end is judged. */
	if (k->phase == KEEPER_HOLDING && !interrupt)
		return;
	keeper_end_job(k,
		kind == KEEPER_ORDER_LOST ? REASON_GPU_LOST
		: interrupt               ? REASON_INTERRUPTED
					  : REASON_CANCELLED,
		kind == KEEPER_ORDER_KILL);
}

/* A process that is being forked is missing in the list of descendants; a second and third pass find it. */
static void pause_job(struct keeper *k)
{
	if (k->phase != KEEPER_RUNNING || k->paused_ns)
		return;
	k->paused_ns = clock_now_ns();
	for (int i = 0; i < 3; i++)
		process_signal_descendants(getpid(), SIGSTOP);
}

static void resume_job(struct keeper *k)
{
	if (k->phase != KEEPER_RUNNING)
		return;
	process_signal_descendants(getpid(), SIGCONT);
	uint64_t pause_ns = k->paused_ns ? clock_now_ns() - k->paused_ns : 0;
	k->deadline_ns += k->deadline_ns ? pause_ns : 0;
	k->warn_ns += k->warn_ns ? pause_ns : 0;
	k->paused_ns = 0;
}

static void on_order_for_job(struct keeper *k, const struct keeper_order *o)
{
	switch ((enum keeper_order_kind)o->kind) {
	case KEEPER_ORDER_SEEN:
		if (o->peak_mem_mb > k->peak_mem_mb)
			k->peak_mem_mb = o->peak_mem_mb;
		k->gpu_full = o->gpu_full;
		k->mean_power_mw = o->mean_power_mw;
		k->power_span_ms = o->power_span_ms;
		break;
	case KEEPER_ORDER_IDLE:
		k->idle_at_ms = o->idle_at_ms;
		k->idle_since_ms = o->idle_since_ms;
		k->idle_ms = o->idle_ms;
		k->idle_gpus = o->idle_gpus;
		break;
	case KEEPER_ORDER_SETTLED:
		keeper_claim_settle(&k->claim);
		break;
	case KEEPER_ORDER_PAUSE:
		pause_job(k);
		break;
	case KEEPER_ORDER_RESUME:
		resume_job(k);
		break;
	case KEEPER_ORDER_CANCEL:
	case KEEPER_ORDER_KILL:
	case KEEPER_ORDER_LOST:
	case KEEPER_ORDER_INTERRUPT:
		on_order_to_end(k, o->kind);
		break;
	default:
		break; /* sent by a newer build */
	}
}

static void on_order_to_run(struct keeper *k, const struct keeper_order *o, char *payload)
{
	/* The allocation ends: a later runner runs the job. */
	if (k->interrupted) {
		free(payload);
		keeper_send_notes(k,
			&(struct keeper_note){
				.kind = KEEPER_NOTE_REFUSED, .code = -EINTR, .id = o->id, .part = ATTEMPT_PROCESS},
			1);
		keeper_link_close(&k->runner);
		return;
	}
	int r = start_job(k, o, payload);
	if (r == 0)
		return;
	struct keeper_note notes[2] = {
		{.kind = KEEPER_NOTE_REFUSED, .code = r, .id = o->id, .part = k->attempt.missing},
		{.kind = KEEPER_NOTE_READY}};
	attempt_finish(&k->attempt);
	if (k->lock_fd >= 0)
		(void)keeper_job_clear(k->lock_fd);
	keeper_send_notes(k, notes, 2);
}

/* A later runner: the earlier one is gone, because this one holds runner.lock. */
static void adopt(struct keeper *k, struct keeper_link *visitor)
{
	keeper_link_close(&k->runner);
	k->runner = *visitor;
	*visitor = KEEPER_LINK_NONE;
	k->adopted = true;
	/* In between, other users of the job's GPUs went unnoticed. */
	k->power_span_ms = 0;
}

static bool is_work(uint32_t kind)
{
	return kind == KEEPER_ORDER_RUN || kind == KEEPER_ORDER_HOOK;
}

void keeper_take_orders(struct keeper *k, struct keeper_link *l)
{
	struct keeper_order o;
	uint32_t kind;
	while ((kind = keeper_link_peek(l))) {
		char *payload = NULL;
		int r = keeper_link_take(l, &o, &payload);
		bool own = l == &k->runner &&
			   (k->lease ? keeper_lease_may_start(k) : !k->adopted && k->phase == KEEPER_IDLE);
		if (kind == KEEPER_ORDER_ADOPT && l != &k->runner) {
			adopt(k, l);
			l = &k->runner;
		} else if (kind == KEEPER_ORDER_RUN && own && r == 0) {
			on_order_to_run(k, &o, take_ptr(payload));
		} else if (kind == KEEPER_ORDER_HOOK && own && !k->lease && r == 0) {
			keeper_hook_ordered(k, &o, take_ptr(payload));
		} else if (is_work(kind) && (own || k->lease)) {
			keeper_send_note_and_ready(k, KEEPER_NOTE_REFUSED, o.id, r < 0 ? r : -ECANCELED);
		} else if (k->phase != KEEPER_IDLE && o.id == k->attempt.order.id) {
			on_order_for_job(k, &o);
		}
		free(payload);
	}
}
