/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of on_cancel and on_setup_cancel: SIGURG interrupts process() or process_batch() when a current
 * task is marked as out of time or cancelled, and setup() when inbox.ending requests it.
 *
 * The warden sends the signal to the first thread, on which all of this runs, and repeats it until outbox.interrupted
 * or outbox.setup_interrupted shows that the hook was called. The handler ignores a signal that arrives outside of the
 * hook, or when no current task without an answer is marked, because the signal was meant for a task that has ended.
 * Inside a gd_*() function it only records the signal, and the function calls on_cancel when it is done.
 */
#ifndef POOL_INTERRUPT_H
#define POOL_INTERRUPT_H

#include "pool/worker_private.h"

/* Installs the handler if the ops have one of the two hooks. */
int interrupt_install(struct gd_worker *w);

/* Calls the hook for a signal that arrived inside a gd_*() function. */
void interrupt_deferred(struct gd_worker *w);

/* Called before and after the hook. */
static inline void interrupt_allow(struct gd_worker *w, enum interrupt_hook hook)
{
	atomic_store_explicit(&w->interrupt.called, 0, memory_order_relaxed);
	w->interrupt.noted = 0;
	atomic_signal_fence(memory_order_seq_cst);
	w->interrupt.allowed = hook;
}

static inline void interrupt_forbid(struct gd_worker *w)
{
	w->interrupt.allowed = INTERRUPT_NONE;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Called at the beginning and the end of a gd_*() function, except in functions that only read. */
static inline void interrupt_defer(struct gd_worker *w)
{
	w->interrupt.calls++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void interrupt_resume(struct gd_worker *w)
{
	atomic_signal_fence(memory_order_seq_cst);
	w->interrupt.calls--;
	if (w->interrupt.noted)
		interrupt_deferred(w);
}

#endif
