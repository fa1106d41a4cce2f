/* SPDX-License-Identifier: MIT */
#include "launch/find_result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "launch/find.h"

void gd_files_free(struct gd_files *files)
{
	if (!files)
		return;
	struct find_result *f = (struct find_result *)files;
	closep(&f->root);
	free(f->list);
	free(f->owners);
	free(f->pointers);
	free(f->warnings);
	arena_finish(&f->arena);
	free(f);
}

bool find_is_open_to_others(const struct gd_files *files)
{
	return ((const struct find_result *)files)->open_to_others;
}

int find_root(const struct gd_files *files)
{
	return ((const struct find_result *)files)->root;
}

const char *find_chosen_part(const struct gd_files *files)
{
	return ((const struct find_result *)files)->chosen_part;
}

uid_t find_owner(const struct gd_files *files, size_t i)
{
	return ((const struct find_result *)files)->owners[i];
}

int find_result_warn(struct find_result *result, const struct text *words)
{
	if (array_reserve(result->warnings, &result->warnings_capacity, result->files.num_warnings + 1) < 0)
		return -ENOMEM;
	result->files.warnings = result->warnings;
	const char *copy = arena_copy(&result->arena, text_string(words), words->length);
	if (!copy || text_error(words))
		return -ENOMEM;
	result->warnings[result->files.num_warnings++] = copy;
	return 0;
}

int find_result_keep(struct find_result *result, const struct find_entry *e)
{
	struct gd_files *files = &result->files;
	if (array_reserve(result->list, &result->capacity, files->count + 1) < 0 ||
		array_reserve(result->owners, &result->owners_capacity, files->count + 1) < 0)
		return -ENOMEM;
	result->owners[files->count] = e->owner;
	result->list[files->count++] = (struct gd_found){
		.size = sizeof(struct gd_found), .path = e->path, .size_bytes = e->size_bytes, .mtime_ns = e->mtime_ns};
	return 0;
}

int find_result_publish(struct find_result *result)
{
	size_t count = result->files.count;
	result->pointers = malloc((count + 1) * sizeof(*result->pointers));
	if (!result->pointers)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		result->pointers[i] = &result->list[i];
	result->files.files = result->pointers;
	return 0;
}

void find_result_note_other(struct find_result *result, const char *prefix, size_t prefix_length, const char *name)
{
	struct gd_files *files = &result->files;
	if (files->others++ > 0)
		return;
	char *path = arena_room(&result->arena, prefix_length + strlen(name));
	if (!path)
		return;
	memcpy(path, prefix, prefix_length);
	strcpy(path + prefix_length, name);
	arena_keep(&result->arena, prefix_length + strlen(name));
	files->other = path;
}
