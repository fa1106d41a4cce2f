/* SPDX-License-Identifier: MIT */
#include "cli/git_alternates.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"

/* Git follows lists to a depth of 5. Here, the number of folders is the limit. */
#define MAX_FOLDERS 64
#define MAX_BYTES   65536

#define VARIABLE "GIT_ALTERNATE_OBJECT_DIRECTORIES"

struct alternates {
	struct {
		dev_t dev;
		ino_t ino;
	} seen[MAX_FOLDERS];
	size_t num_seen;
	struct gd_error *err;
};

static int check_file(struct alternates *a, int objects);

/* Whether ".." occurs anywhere but at the beginning of a relative path. Git resolves it in the text, the kernel only
 * after following links, so they could find different folders. */
static bool has_dots(const char *path)
{
	while (strncmp(path, "../", 3) == 0)
		path += 3;
	for (const char *p = strstr(path, ".."); p; p = strstr(p + 1, ".."))
		if ((p == path || p[-1] == '/') && (p[2] == '/' || !p[2]))
			return true;
	return false;
}

/* `path` is for messages. 1: the folder is new; 0: it was checked, or is being checked. */
static int add_folder(struct alternates *a, int fd, const char *path)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set(a->err, -errno, "cannot examine '%s', which contains objects of the repository: %s",
			path, error_words(-errno));
	for (size_t i = 0; i < a->num_seen; i++)
		if (a->seen[i].dev == st.st_dev && a->seen[i].ino == st.st_ino)
			return 0;
	if (a->num_seen == MAX_FOLDERS)
		return error_set(a->err, -EPERM,
			"the repository borrows from more than %d folders of objects: clone it", MAX_FOLDERS);
	a->seen[a->num_seen].dev = st.st_dev;
	a->seen[a->num_seen++].ino = st.st_ino;
	return 1;
}

static int check_folder(struct alternates *a, int objects, const char *path)
{
	cleanup_(closep) int fd = -1;
	struct gd_error why = {0};
	int r = trust_open_directory_at(objects, path, true, &fd, &why);
	int new = r < 0 ? 0 : add_folder(a, fd, path);
	if (new < 0)
		return new;
	if (new > 0)
		r = trust_check_tree(fd, NULL, &why);
	if (r < 0)
		return error_set(a->err, -EPERM, "the repository borrows objects from '%s': %s%s, clone the repository",
			path, why.message,
			r == -EPERM
				? ", so other users could run commands as you; remove their write access (chmod -R go-w)"
				: "; correct objects/info/alternates");
	return new == 0 ? 0 : check_file(a, fd);
}

/* `source` names the list in messages. */
static int check_entry(struct alternates *a, int objects, const char *path, const char *source)
{
	const char *problem = *path == '"' ? "is quoted" : has_dots(path) ? "contains '..'" : NULL;
	if (objects < 0 && *path != '/')
		problem = "is not an absolute path";
	if (problem)
		return error_set(a->err, -EPERM,
			"'%s' in %s %s and is not examined: write an absolute path, without '..'", path, source,
			problem);
	return check_folder(a, objects < 0 ? AT_FDCWD : objects, path);
}

static int check_file(struct alternates *a, int objects)
{
	cleanup_(closep) int fd = file_open_regular(objects, "info/alternates", 0);
	if (fd == -ENOENT)
		return 0;
	cleanup_(freep) char *list = malloc(MAX_BYTES + 1);
	ssize_t n = fd < 0 ? fd : list ? file_read_full(fd, list, MAX_BYTES + 1) : -ENOMEM;
	if (n < 0 || n > MAX_BYTES)
		return error_set(a->err, n < 0 ? (int)n : -EFBIG, "cannot read objects/info/alternates: %s",
			error_words(n < 0 ? (int)n : -EFBIG));
	list[n] = '\0';
	int r = 0;
	char *rest = list;
	for (char *line; r == 0 && (line = strsep(&rest, "\n"));)
		if (*line && *line != '#')
			r = check_entry(a, objects, line, "objects/info/alternates");
	return r;
}

int git_alternates_check(int objects, struct gd_error *err)
{
	struct alternates a = {.err = err};
	const char *value = getenv(VARIABLE);
	cleanup_(freep) char *list = strdup(value ? value : "");
	if (!list)
		return error_set(err, -ENOMEM, "out of memory");
	int r = add_folder(&a, objects, "objects");
	if (r > 0)
		r = check_file(&a, objects);
	char *rest = list;
	for (char *path; r == 0 && (path = strsep(&rest, ":"));)
		if (*path && *path != '#')
			r = check_entry(&a, -1, path, VARIABLE);
	return r;
}
