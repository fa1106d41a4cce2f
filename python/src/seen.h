/* SPDX-License-Identifier: MIT */
/* A set of objects, by identity. Small sets need no allocation. Borrows the objects. */
#ifndef SEEN_H
#define SEEN_H

#include <stddef.h>

#define SEEN_FIRST 32 /* places; a power of two */

struct seen {
	const void **places;
	size_t room;
	size_t count;
	const void *first[SEEN_FIRST];
};

static inline void seen_init(struct seen *s)
{
	s->places = NULL; /* `first` is used and cleared when needed */
	s->count = 0;
}

/* 1: added; 0: already present; -1: no memory. */
int seen_add(struct seen *s, const void *object);

void seen_finish_now(struct seen *s);
static inline void seen_finish(struct seen *s)
{
	if (s->places && s->places != s->first)
		seen_finish_now(s);
}

#endif
