/* SPDX-License-Identifier: MIT */
/*
 * The data of a dispatcher, for the files that implement it. They use the public functions of the pool, and those of
 * pool_hints.h.
 *
 * A run has two threads: the caller's, which polls and makes the callbacks, and the feeder, which calls the generator
 * (with inline_generator there is no feeder). Any thread and signal handlers can request a stop, which changes only
 * atomic variables.
 */
#ifndef POOL_DISPATCHER_PRIVATE_H
#define POOL_DISPATCHER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gpu_dispatch.h"

struct gd_feed {
	struct gd_dispatcher *dispatcher;
	struct gd_pool *pool;
	int error; /* why the pool refused a task; 0: it did not */
	bool emitted;
	struct gd_draft *draft;
	size_t size;
	void *tag;
};

struct gd_dispatcher {
	struct gd_options *options;
	int stop_fd;  /* readable from the first stop on */
	int nudge_fd; /* wakes the loop */
	atomic_bool running;
	const struct gd_run *run; /* of the current run */
	atomic_bool source_over;
	int source_error;
	int source_returned; /* what the generator returned without emitting a task */

	atomic_int stops;                         /* requested from the dispatcher */
	atomic_int passed;                        /* of these, passed on to the pool */
	_Atomic(struct gd_pool *) stoppable_pool; /* NULL before it is open and when its workers are gone */
	atomic_int passing;                       /* calls that count a stop or may be using stoppable_pool */

	pthread_mutex_t lock; /* for the statistics below */
	struct gd_pool *pool; /* NULL: no run is active */
	struct gd_stats last;
	struct gd_worker_stats *last_workers;
	size_t num_last_workers;
};

/* dispatcher.c */
void dispatcher_nudge(struct gd_dispatcher *d);
void dispatcher_wait(struct gd_dispatcher *d, struct gd_pool *p); /* until the pool needs a poll, or for a nudge */

/* feed.c: the generator's side */
void *feed_run(void *feed); /* the feeder thread: calls the generator until its end or a stop */
void feed_inline(struct gd_feed *f);
void feed_end(struct gd_feed *f, int r); /* the generator is not called again; r: its error, or 0 */

/* dispatcher_stats.c: the pool is about to be closed; saves its statistics for the dispatcher */
void dispatcher_remember(struct gd_dispatcher *d, struct gd_pool *p);

#endif
