/* SPDX-License-Identifier: MIT */
/* The entries of one folder that are wanted files or folders to enter, sorted by name. */
#ifndef LAUNCH_FIND_LISTING_H
#define LAUNCH_FIND_LISTING_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"

struct find_entry {
	uint64_t key; /* the first bytes at which the names of a folder differ */
	char *path;
	uint64_t size_bytes;
	int64_t mtime_ns;
	bool is_folder;
	bool is_link;
	uid_t owner; /* see find_owner() */
};

struct find_listing {
	struct find_entry *list;
	size_t count, capacity;
	size_t name_at; /* offset of the names in the paths */
};

/* Paths are "PREFIX" + name, and kept in the arena. Returns 0 or -ENOMEM. */
int find_listing_add(struct find_listing *listing, struct arena *arena, const char *prefix, const struct dirent *d,
	const struct stat *st, uid_t owner);
void find_listing_sort(struct find_listing *listing);
void find_listing_finish(struct find_listing *listing);

#endif
