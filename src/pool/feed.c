/* SPDX-License-Identifier: MIT */
/* The generator's side of a run: passes emitted tasks to the pool. */
#include <errno.h>

#include "pool/dispatcher_private.h"
#include "pool/pool_hints.h"

#define INLINE_BURST 512 /* tasks pulled on the caller's thread between two checks for answers */

/* With inline_generator, the thread that waits for room is the one that polls: callbacks are made here. */
static void make_room(struct gd_feed *f)
{
	if (gd_pool_poll(f->pool, 0, 0) == 0)
		dispatcher_wait(f->dispatcher, f->pool);
}

int gd_feed_emit(struct gd_feed *f, const void *data, size_t size, void *tag, const struct gd_task_options *options)
{
	if (f->emitted)
		return -EALREADY;
	if (f->error < 0)
		return f->error;
	int r;
	while ((r = gd_pool_submit(f->pool, data, size, tag, options, NULL)) == -EAGAIN)
		make_room(f);
	f->size = size;
	if (r < 0)
		f->error = r;
	else
		f->emitted = true;
	return r < 0 ? r : 1;
}

void *gd_feed_reserve(struct gd_feed *f, size_t size, void *tag, const struct gd_task_options *options)
{
	if (f->emitted || f->error < 0)
		return NULL;
	void *data;
	while ((f->error = gd_pool_reserve(f->pool, size, options, &f->draft, &data)) == -EAGAIN)
		make_room(f);
	if (f->error < 0)
		return NULL;
	f->emitted = true;
	f->size = size;
	f->tag = tag;
	return data;
}

/* Handles a call of the generator that did not emit exactly one task; r: what it returned. */
__attribute__((noinline)) static int pulled(struct gd_feed *f, int r)
{
	if (f->draft && r > 0)
		f->error = gd_draft_commit(f->draft, f->size, f->tag, NULL);
	else if (f->draft)
		gd_draft_abandon(f->draft);
	if (f->error == -ESHUTDOWN || f->error == -ENODEV)
		return 0; /* the run is ending; not the generator's fault */
	if (f->error < 0)
		return f->error;
	if (r > 0 && !f->emitted) {
		f->dispatcher->source_returned = r;
		return -ENODATA;
	}
	return r > 0 ? 1 : r;
}

/* One call of the generator. 1: there may be more. */
static inline int pull(struct gd_feed *f)
{
	const struct gd_run *run = f->dispatcher->run;
	f->emitted = false;
	f->draft = NULL;
	int r = run->generator(run->generator_context, f);
	return r > 0 && f->emitted && !f->draft && f->error == 0 ? 1 : pulled(f, r);
}

void feed_end(struct gd_feed *f, int r)
{
	struct gd_dispatcher *d = f->dispatcher;
	gd_pool_expect_no_more(f->pool);
	d->source_error = r;
	atomic_store(&d->source_over, true);
	dispatcher_nudge(d);
}

void *feed_run(void *argument)
{
	struct gd_feed *f = argument;
	int r;
	do {
		r = atomic_load(&f->dispatcher->stops) > 0 ? 0 : pull(f);
	} while (r > 0);
	feed_end(f, r);
	return NULL;
}

/* Pulls as many tasks as there is space for, but not so many that answers wait. */
void feed_inline(struct gd_feed *f)
{
	size_t room = gd_pool_room(f->pool);
	int r = 1;
	for (size_t i = 0; i < room && i < INLINE_BURST && r > 0; i++) {
		r = pull(f);
		if (f->size >= POOL_LARGE)
			break; /* the amount of free space is unknown from here on */
	}
	if (r <= 0)
		feed_end(f, r);
}
