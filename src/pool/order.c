/* SPDX-License-Identifier: MIT */
#include "pool/order.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct held {
	bool here;
	struct gd_event event;
	void *bytes; /* task, result and message, one after the other */
};

int order_init(struct order *o, size_t room)
{
	*o = (struct order){.room = room};
	o->held = calloc(room, sizeof(*o->held));
	return o->held ? 0 : -ENOMEM;
}

void order_finish(struct order *o)
{
	for (size_t i = 0; o->held && i < o->room; i++)
		free(o->held[i].bytes);
	free(o->held);
	o->held = NULL;
}

/* For any type, as the bytes were where they came from. */
static size_t aligned(size_t size)
{
	size_t unit = _Alignof(max_align_t);
	return (size + unit - 1) / unit * unit;
}

static int keep(struct held *h)
{
	struct gd_event *e = &h->event;
	size_t words = strlen(e->message) + 1;
	char *to = malloc(aligned(e->task.size) + aligned(e->result.size) + words);
	h->bytes = to;
	if (!to) {
		/* Its callback is made all the same, and says what became of the result. */
		if (e->failure == GD_FAILURE_NONE) {
			e->failure = GD_NOT_CARRIED;
			e->code = -ENOMEM;
			e->message = "no memory to hold the result back until it is its turn";
		} else {
			e->message = "";
		}
		e->task = e->result = (struct gd_bytes){0};
		return -ENOMEM;
	}
	struct gd_bytes *bytes[2] = {&e->task, &e->result};
	for (int i = 0; i < 2; i++) {
		if (bytes[i]->size)
			memcpy(to, bytes[i]->data, bytes[i]->size);
		bytes[i]->data = to;
		to += aligned(bytes[i]->size);
	}
	memcpy(to, e->message, words);
	e->message = to;
	return 0;
}

int order_hold(struct order *o, const struct gd_event *event)
{
	assert(event->id >= o->next && event->id - o->next < o->room);
	struct held *h = &o->held[event->id % o->room];
	assert(!h->here);
	h->here = true;
	h->event = *event;
	return keep(h);
}

const struct gd_event *order_ready(struct order *o)
{
	struct held *h = &o->held[o->next % o->room];
	return h->here ? &h->event : NULL;
}

void order_advance(struct order *o)
{
	struct held *h = &o->held[o->next % o->room];
	free(h->bytes);
	h->bytes = NULL;
	h->here = false;
	o->next++;
}
