/* SPDX-License-Identifier: MIT */
#include "launch/path_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void path_map_finish(struct path_map *m)
{
	free(m->slots);
	*m = (struct path_map){0};
}

static struct path_map_slot *find_slot(const struct path_map *m, const char *path)
{
	size_t i = hash_seeded(path, strlen(path), m->seed) & (m->room - 1);
	while (m->slots[i].path && strcmp(m->slots[i].path, path) != 0)
		i = (i + 1) & (m->room - 1);
	return &m->slots[i];
}

static bool grow(struct path_map *m)
{
	struct path_map larger = {.room = m->room ? 2 * m->room : 64, .count = m->count};
	larger.seed = m->seed ? m->seed : hash_seed();
	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < m->room; i++)
		if (m->slots[i].path)
			*find_slot(&larger, m->slots[i].path) = m->slots[i];
	free(m->slots);
	*m = larger;
	return true;
}

size_t *path_map_put(struct path_map *m, const char *path, size_t number)
{
	if (2 * (m->count + 1) > m->room && !grow(m))
		return NULL;
	struct path_map_slot *slot = find_slot(m, path);
	if (!slot->path) {
		*slot = (struct path_map_slot){path, number};
		m->count++;
	}
	return &slot->number;
}

const size_t *path_map_get(const struct path_map *m, const char *path)
{
	if (m->room == 0)
		return NULL;
	const struct path_map_slot *slot = find_slot(m, path);
	return slot->path ? &slot->number : NULL;
}
