/* SPDX-License-Identifier: MIT */
#include "cli/complete_programs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/shell_words.h"
#include "cli/complete_line.h"

/* A longer list is useless at a prompt. */
#define MOST_NAMES 10000

struct program_names {
	char **names;
	size_t count, capacity;
};

/* Kinds of directory entries, as bits. */
enum {
	ENTRY_FOLDER = 1,
	ENTRY_PROGRAM = 2,
	ENTRY_FILE = 4,
};

static unsigned kind_of(int dir_fd, const char *name)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, 0) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return ENTRY_FOLDER;
	if (!S_ISREG(st.st_mode))
		return 0;
	return st.st_mode & 0111 ? ENTRY_PROGRAM | ENTRY_FILE : ENTRY_FILE;
}

/* A name with a leading dash would be read as an option. Hidden files are offered only after a typed dot. */
static bool is_candidate(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0 && name[0] != '-' && (name[0] != '.' || prefix[0] == '.') &&
	       shell_is_plain(name, strlen(name));
}

static void add(struct program_names *n, const char *name, bool is_folder)
{
	size_t size = strlen(name);
	if (array_reserve(n->names, &n->capacity, n->count + 1) < 0)
		return;
	char *copy = malloc(size + 2);
	if (!copy)
		return;
	memcpy(copy, name, size);
	memcpy(copy + size, "/", 2);
	copy[size + is_folder] = '\0';
	n->names[n->count++] = copy;
}

static void add_folder(struct program_names *n, const char *path, const char *prefix, unsigned kinds)
{
	cleanup_(closedirp) DIR *dir = opendir(path);
	if (!dir)
		return;
	for (const struct dirent *entry; n->count < MOST_NAMES && (entry = readdir(dir));) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !is_candidate(name, prefix))
			continue;
		unsigned kind = kind_of(dirfd(dir), name);
		if (kind & kinds)
			add(n, name, kind == ENTRY_FOLDER);
	}
}

static void add_path(struct program_names *n, const char *prefix)
{
	const char *path = getenv("PATH");
	for (const char *p = path ? path : ""; *p; p += *p == ':') {
		cleanup_(text_finish) struct text folder = {0};
		size_t size = strcspn(p, ":");
		text_append(&folder, p, size);
		if (*p == '/')
			add_folder(n, text_string(&folder), prefix, ENTRY_PROGRAM);
		p += size;
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void offer(struct program_names *n, struct complete_offer *o)
{
	if (n->count)
		qsort(n->names, n->count, sizeof(*n->names), compare);
	for (size_t i = 0; i < n->count; i++)
		if (i == 0 || strcmp(n->names[i], n->names[i - 1]) != 0)
			complete_offer_add(o, n->names[i], NULL, 0);
	for (size_t i = 0; i < n->count; i++)
		free(n->names[i]);
	free(n->names);
}

void complete_programs(bool with_files, struct complete_offer *o)
{
	struct program_names n = {0};
	const char *slash = strrchr(o->typed, '/');
	unsigned files = with_files ? ENTRY_FILE : 0;
	if (!complete_offer_is_plain(o->typed))
		return;
	if (slash) {
		cleanup_(freep) char *typed = strndup(o->typed, (size_t)(slash - o->typed) + 1);
		cleanup_(freep) char *folder = complete_line_expand(typed);
		o->typed = slash + 1;
		if (folder)
			add_folder(&n, folder, o->typed, ENTRY_FOLDER | ENTRY_PROGRAM | files);
	} else {
		add_path(&n, o->typed);
		add_folder(&n, ".", o->typed, ENTRY_FOLDER | files);
	}
	offer(&n, o);
}
