/* SPDX-License-Identifier: MIT */
#include "queue/journal/moved_path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_in(const char *path, const char *directory, size_t length)
{
	return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* The length of the path without its last component. */
static size_t length_above(const char *path, size_t length)
{
	while (length > 0 && path[length - 1] != '/')
		length--;
	return length > 0 ? length - 1 : 0;
}

static bool is_missing(const char *path, size_t length)
{
	cleanup_(freep) char *directory = strndup(path, length);
	return directory && access(directory, F_OK) < 0 && errno == ENOENT;
}

int moved_path_find(const char *path, const char *from, const char *to, char **ret)
{
	size_t from_length = strlen(from), to_length = strlen(to);
	char *moved;
	if (is_in(path, to, to_length))
		return 0;
	/* Equal last names: a directory above was renamed, or the directory was moved to another one. */
	while (!is_in(path, from, from_length)) {
		size_t from_above = length_above(from, from_length), to_above = length_above(to, to_length);
		bool same = from_length - from_above == to_length - to_above &&
			    memcmp(from + from_above, to + to_above, from_length - from_above) == 0;
		if (!same || from_above == 0 || to_above == 0 || !is_missing(from, from_above))
			return 0;
		from_length = from_above;
		to_length = to_above;
	}
	if (asprintf(&moved, "%.*s%s", (int)to_length, to, path + from_length) < 0)
		return -ENOMEM;
	*ret = moved;
	return 1;
}
