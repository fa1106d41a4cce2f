/* SPDX-License-Identifier: MIT */
#include "seen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t place_of(const struct seen *s, const void *object)
{
	uint64_t hash = ((uint64_t)(uintptr_t)object >> 4) * UINT64_C(0x9E3779B97F4A7C15);
	size_t at = (size_t)(hash >> 32) & (s->room - 1);
	while (s->places[at] && s->places[at] != object)
		at = (at + 1) & (s->room - 1);
	return at;
}

static int grow(struct seen *s)
{
	struct seen larger = {.room = s->room * 4};
	larger.places = calloc(larger.room, sizeof(*larger.places));
	if (!larger.places)
		return -1;
	for (size_t i = 0; i < s->room; i++)
		if (s->places[i])
			larger.places[place_of(&larger, s->places[i])] = s->places[i];
	seen_finish(s);
	s->places = larger.places;
	s->room = larger.room;
	return 0;
}

int seen_add(struct seen *s, const void *object)
{
	if (!s->places) {
		memset(s->first, 0, sizeof(s->first));
		s->places = s->first;
		s->room = SEEN_FIRST;
	}
	size_t at = place_of(s, object);
	if (s->places[at])
		return 0;
	s->places[at] = object;
	s->count++;
	return s->count * 2 > s->room && grow(s) < 0 ? -1 : 1;
}

void seen_finish_now(struct seen *s)
{
	free(s->places);
	s->places = NULL;
}
