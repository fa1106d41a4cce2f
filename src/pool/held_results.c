/* SPDX-License-Identifier: MIT */
#include "pool/held_results.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/alignment.h"
#include "pool/result.h"

struct held_result {
	bool here;
	struct gd_event event;
	void *bytes; /* task, result and message, one after the other; a large result belongs to event.internal */
};

int held_results_init(struct held_results *h, size_t room)
{
	*h = (struct held_results){.room = room};
	h->results = calloc(room, sizeof(*h->results));
	return h->results ? 0 : -ENOMEM;
}

static void drop(struct held_result *r)
{
	gd_result_free((struct gd_result *)r->event.internal);
	free(r->bytes);
	r->event.internal = NULL;
	r->bytes = NULL;
	r->here = false;
}

void held_results_finish(struct held_results *h)
{
	for (size_t i = 0; h->results && i < h->room; i++)
		drop(&h->results[i]);
	free(h->results);
	h->results = NULL;
}

static int keep(struct held_result *r)
{
	struct gd_event *e = &r->event;
	size_t words = strlen(e->message) + 1;
	/* A large result is kept where it is. */
	bool copies = !e->internal;
	char *to = malloc(alignment_round(e->task.size) + (copies ? alignment_round(e->result.size) : 0) + words);
	r->bytes = to;
	if (!to) {
		/* The callback is still made, and reports that the result is lost. */
		if (e->failure == GD_FAILURE_NONE) {
			e->failure = GD_FAILURE_NOT_CARRIED;
			e->code = -ENOMEM;
			e->message = "not enough memory to keep the result until its turn";
		} else {
			e->message = "";
		}
		e->task = e->result = (struct gd_bytes){0};
		e->internal = NULL;
		return -ENOMEM;
	}
	if (!copies)
		result_hold((struct gd_result *)e->internal);
	struct gd_bytes *bytes[2] = {&e->task, &e->result};
	for (int i = 0; i < (copies ? 2 : 1); i++) {
		if (bytes[i]->size)
			memcpy(to, bytes[i]->data, bytes[i]->size);
		bytes[i]->data = to;
		to += alignment_round(bytes[i]->size);
	}
	memcpy(to, e->message, words);
	e->message = to;
	return 0;
}

int held_results_hold(struct held_results *h, const struct gd_event *event)
{
	assert(event->id >= h->next && event->id - h->next < h->room);
	struct held_result *r = &h->results[event->id % h->room];
	assert(!r->here);
	r->here = true;
	r->event = *event;
	return keep(r);
}

const struct gd_event *held_results_ready(struct held_results *h)
{
	struct held_result *r = &h->results[h->next % h->room];
	return r->here ? &r->event : NULL;
}

void held_results_advance(struct held_results *h)
{
	drop(&h->results[h->next % h->room]);
	h->next++;
}
