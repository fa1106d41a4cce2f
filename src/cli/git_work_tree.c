/* SPDX-License-Identifier: MIT */
#include "cli/git_work_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/git.h"

/* A directory, or anything that another user could have written. */
struct work_entry {
	char *path;            /* relative to the top, which is "" itself */
	const char *objection; /* NULL: no other user can write it */
	bool is_folder;
	bool is_read; /* git reads it and everything in it, even if a rule ignores it */
};

struct work_entries {
	struct work_entry *items;
	size_t count, room;
};

struct work_tree {
	const char *top;
	int fd;
	const char *skip;
	const char **tracked; /* sorted paths */
	size_t num_tracked;
	gid_t private_group; /* cache, see trust_objection_at() */
	struct gd_error *err;
};

static void list_finish(struct work_entries *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i].path);
	free(l->items);
	*l = (struct work_entries){0};
}

/* Takes ownership of the path. */
static int list_add(struct work_entries *l, struct work_entry item)
{
	if (l->count == l->room && item.path) {
		size_t room = l->room ? 2 * l->room : 64;
		struct work_entry *longer = reallocarray(l->items, room, sizeof(*longer));
		if (longer) {
			l->items = longer;
			l->room = room;
		}
	}
	if (!item.path || l->count == l->room) {
		free(item.path);
		return -ENOMEM;
	}
	l->items[l->count++] = item;
	return 0;
}

/* ---- Tracked files --------------------------------------------------------------------- */

/* Git sorts the index by path. */
static int list_tracked(struct work_tree *w, const struct text *index)
{
	const char *p = text_string(index), *end = p + index->length;
	size_t n = 0;
	for (const char *at = p; at < end; at += strlen(at) + 1)
		n++;
	w->tracked = calloc(n + 1, sizeof(*w->tracked));
	if (!w->tracked)
		return error_set(w->err, -ENOMEM, "out of memory");
	for (; p < end; p += strlen(p) + 1) {
		const char *tab = strchr(p, '\t');
		w->tracked[w->num_tracked++] = tab ? tab + 1 : p;
	}
	return 0;
}

/* Whether path and name together are a tracked file or, if the name ends with "/", contain one. */
static bool is_tracked(const struct work_tree *w, const char *path, const char *name)
{
	char key[PATH_MAX + 16];
	int size = snprintf(key, sizeof(key), "%s%s", path, name);
	size_t low = 0, high = w->num_tracked;
	if (size >= (int)sizeof(key))
		return true;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(w->tracked[middle], key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	/* With its NUL, the key matches only the whole path. */
	size_t compared = (size_t)size + (size > 0 && key[size - 1] == '/' ? 0 : 1);
	return low < w->num_tracked && strncmp(w->tracked[low], key, compared) == 0;
}

static bool has_tracked(const struct work_tree *w, const struct work_entry *f)
{
	return is_tracked(w, f->path, f->is_folder ? "/" : "");
}

/* ---- Directories ----------------------------------------------------------------------- */

static int refuse(const struct work_tree *w, const struct work_entry *f)
{
	return error_set(w->err, -EPERM,
		"'%s/%s' %s, so other users could choose what is frozen; check its content, then run chmod -R go-w on it; "
		"if it belongs to others, replace it with a copy%s%s",
		w->top, f->path, f->objection, f->is_read ? "" : "; or add it to .gitignore",
		!f->is_read && has_tracked(w, f) ? " (and run git rm -r --cached)" : "");
}

static int give_up(const struct work_tree *w, const char *path, int code)
{
	return error_set(w->err, -EPERM, "'%s/%s' cannot be examined: %s; change its permissions", w->top, path,
		error_words(code));
}

/* Git reads these in each directory that it reads. A rule such as ".*" makes no difference. */
static bool is_name_of_git(const char *name)
{
	return strcasecmp(name, ".git") == 0 || strcasecmp(name, ".gitignore") == 0 ||
	       strcasecmp(name, ".gitattributes") == 0 || strcasecmp(name, ".gitmodules") == 0;
}

/* Adds an entry of the directory `above` if it is a directory or another user could have written it. */
static int visit_entry(
	struct work_tree *w, int dir_fd, const struct work_entry *above, const char *name, struct work_entries *found)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : give_up(w, above->path, -errno);
	struct work_entry f = {.objection = trust_objection_at(dir_fd, name, &st, &w->private_group),
		.is_folder = S_ISDIR(st.st_mode),
		.is_read = above->is_read || is_name_of_git(name)};
	if (!f.objection && !f.is_folder)
		return 0;
	if (asprintf(&f.path, "%s%s%s", above->path, *above->path ? "/" : "", name) < 0)
		return error_set(w->err, -ENOMEM, "out of memory");
	int r = 0;
	/* Refuse it before git reads rules from it. */
	if (f.objection && f.is_read)
		r = refuse(w, &f);
	if (r < 0 || (!f.objection && w->skip && strcmp(f.path, w->skip) == 0)) {
		free(f.path);
		return r;
	}
	return list_add(found, f) < 0 ? error_set(w->err, -ENOMEM, "out of memory") : 0;
}

/* Git takes rules that are not checked out (git sparse-checkout) from the index; git check-ignore does not. */
static bool has_hidden_rules(const struct work_tree *w, const struct work_entry *folder, int fd)
{
	struct stat st;
	return fstatat(fd, ".gitignore", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	       is_tracked(w, folder->path, *folder->path ? "/.gitignore" : ".gitignore");
}

/* Lists a directory. Others can write neither this directory nor those above it, so its path is safe to use. */
static int visit_folder(struct work_tree *w, struct work_entry *folder, struct work_entries *found)
{
	int fd = openat(w->fd, *folder->path ? folder->path : ".",
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int code = -errno;
		closep(&fd);
		/* Git cannot list it either, but may reach tracked files in it. */
		bool skipped = code == -ENOENT || (code == -EACCES && !has_tracked(w, folder));
		return skipped ? 0 : give_up(w, folder->path, code);
	}
	folder->is_read = folder->is_read || has_hidden_rules(w, folder, fd);
	int r = 0;
	while (r == 0) {
		errno = 0;
		const struct dirent *e = readdir(dir);
		if (!e)
			return errno ? give_up(w, folder->path, -errno) : 0;
		bool is_repository = !*folder->path && strcmp(e->d_name, ".git") == 0;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !is_repository)
			r = visit_entry(w, fd, folder, e->d_name, found);
	}
	return r;
}

/* ---- Ignored entries ------------------------------------------------------------------- */

/* Lists ignored entries, each with "./" before its path. The rules are in directories that have been checked. */
static int list_ignored(const struct work_tree *w, const struct work_entries *found, struct text *ret)
{
	cleanup_(text_finish) struct text paths = {0};
	for (size_t i = 0; i < found->count; i++)
		if (!found->items[i].is_read) {
			text_appendf(&paths, "./%s", found->items[i].path);
			text_append_char(&paths, '\0');
		}
	return git_list_ignored(w->top, &paths, ret, w->err);
}

/* Removes ignored entries from the list. -EPERM if others can write one of the rest. */
static int check_found(const struct work_tree *w, struct work_entries *found)
{
	cleanup_(text_finish) struct text ignored = {0};
	size_t kept = 0;
	int r = list_ignored(w, found, &ignored);
	if (r < 0)
		return r;
	const char *p = text_string(&ignored), *end = p + ignored.length;
	for (size_t i = 0; i < found->count; i++) {
		struct work_entry *f = &found->items[i];
		bool is_ignored = !f->is_read && p < end && strcmp(p + 2, f->path) == 0;
		if (is_ignored)
			p += strlen(p) + 1;
		if (is_ignored && !has_tracked(w, f)) {
			free(take_ptr(f->path));
			continue;
		}
		if (f->objection)
			return refuse(w, f);
		struct work_entry next = *f;
		f->path = NULL;
		found->items[kept++] = next;
	}
	found->count = kept;
	return p == end ? 0 : error_set(w->err, -EINVAL, "git check-ignore printed '%s', which is unexpected", p);
}

/* Level by level: the rules for a directory are checked before git is asked about it. */
static int check_levels(struct work_tree *w)
{
	cleanup_(list_finish) struct work_entries level = {0};
	if (list_add(&level, (struct work_entry){.path = strdup(""), .is_folder = true}) < 0)
		return error_set(w->err, -ENOMEM, "out of memory");
	int r = 0;
	while (r == 0 && level.count) {
		struct work_entries found = {0};
		for (size_t i = 0; r == 0 && i < level.count; i++)
			r = visit_folder(w, &level.items[i], &found);
		if (r == 0)
			r = check_found(w, &found);
		list_finish(&level);
		level = found;
	}
	return r;
}

int git_work_tree_check(const char *top, const struct text *index, const char *skip, struct gd_error *err)
{
	struct work_tree w = {.top = top, .skip = skip, .private_group = TRUST_NO_GROUP, .err = err};
	cleanup_(closep) int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return give_up(&w, "", -errno);
	w.fd = fd;
	int r = list_tracked(&w, index);
	if (r == 0)
		r = check_levels(&w);
	free(w.tracked);
	return r;
}
