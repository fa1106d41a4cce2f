/* SPDX-License-Identifier: MIT */
/* Numbers by path. Start from {0}. The paths are borrowed and must outlive the map. */
#ifndef LAUNCH_PATH_MAP_H
#define LAUNCH_PATH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct path_map_slot {
	const char *path; /* NULL: free */
	size_t number;
};

struct path_map {
	struct path_map_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t count;
	uint64_t seed; /* of its hashes: other users may choose file names */
};

void path_map_finish(struct path_map *m);

/* The number of this path, which is `number` if the path is new; NULL: no memory. */
size_t *path_map_put(struct path_map *m, const char *path, size_t number);
/* NULL if the path is unknown. */
const size_t *path_map_get(const struct path_map *m, const char *path);

#endif
