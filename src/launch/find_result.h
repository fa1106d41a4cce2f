/* SPDX-License-Identifier: MIT */
/* The result of a search for files. */
#ifndef LAUNCH_FIND_RESULT_H
#define LAUNCH_FIND_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"
#include "gpu_dispatch_launch.h"
#include "launch/find_listing.h"

/* The result with everything it owns. The public part comes first: gd_files_free() gets its address. */
struct find_result {
	struct gd_files files;
	struct arena arena;
	struct gd_found *list;
	uid_t *owners; /* by file, see find_owner() */
	size_t capacity, owners_capacity;
	const struct gd_found **pointers; /* to the list */
	const char **warnings;
	size_t warnings_capacity;
	int root; /* see find_root() */
	bool open_to_others;
	const char *chosen_part; /* see find_chosen_part() */
};

/* All return 0 or -ENOMEM. */
int find_result_warn(struct find_result *result, const struct text *words);
int find_result_keep(struct find_result *result, const struct find_entry *entry);
/* Sets the public list. Only when all files have been found: the list moves while it grows. */
int find_result_publish(struct find_result *result);

/* Counts a file that no pattern matches, and notes the path of the first one. */
void find_result_note_other(struct find_result *result, const char *prefix, size_t prefix_length, const char *name);

#endif
