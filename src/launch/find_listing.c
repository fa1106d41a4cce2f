/* SPDX-License-Identifier: MIT */
#include "launch/find_listing.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"

void find_listing_finish(struct find_listing *listing)
{
	free(listing->list);
}

int find_listing_add(struct find_listing *listing, struct arena *arena, const char *prefix, const struct dirent *d,
	const struct stat *st, uid_t owner)
{
	const char *name = d->d_name;
	if (array_reserve(listing->list, &listing->capacity, listing->count + 1) < 0)
		return -ENOMEM;
	size_t length = strlen(name);
	char *path = arena_room(arena, listing->name_at + length);
	if (!path)
		return -ENOMEM;
	memcpy(path, prefix, listing->name_at);
	memcpy(path + listing->name_at, name, length + 1);
	arena_keep(arena, listing->name_at + length);
	listing->list[listing->count++] = (struct find_entry){
		.path = path,
		.size_bytes = (uint64_t)st->st_size,
		.mtime_ns = file_mtime_ns(st),
		.is_folder = S_ISDIR(st->st_mode),
		.is_link = d->d_type != DT_DIR, /* or the file system does not report it */
		.owner = owner,
	};
	return 0;
}

static int by_name(const void *x, const void *y)
{
	const struct find_entry *a = x, *b = y;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return strcmp(a->path, b->path);
}

/*
 * Names of a folder often share a prefix ("recording-0000…"): compare the eight bytes after it as one number first,
 * which usually decides.
 */
void find_listing_sort(struct find_listing *listing)
{
	if (listing->count < 2)
		return;
	const char *first = listing->list[0].path + listing->name_at;
	size_t alike = strlen(first);
	for (size_t i = 1; i < listing->count; i++) {
		const char *name = listing->list[i].path + listing->name_at;
		size_t n = 0;
		while (n < alike && name[n] == first[n])
			n++;
		alike = n;
	}
	for (size_t i = 0; i < listing->count; i++) {
		char bytes[8] = {0};
		memcpy(bytes, listing->list[i].path + listing->name_at + alike,
			strnlen(listing->list[i].path + listing->name_at + alike, sizeof(bytes)));
		uint64_t key;
		memcpy(&key, bytes, sizeof(key));
		listing->list[i].key = be64toh(key);
	}
	qsort(listing->list, listing->count, sizeof(*listing->list), by_name);
}
