/* SPDX-License-Identifier: MIT */
/* Finding files: gd_files_find(). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text.h"
#include "launch/find.h"
#include "launch/find_listing.h"
#include "launch/find_pattern.h"
#include "launch/find_result.h"
#include "launch/outputs.h"
#include "launch/path_map.h"

SIZED_NO_TAIL(gd_find_options, trust_input);
SIZED_NO_TAIL(gd_files, skipped);
SIZED_NO_TAIL(gd_found, seconds);

#define ASK_EVERY 64
/* Each nested folder is opened starting at the searched folder: the work grows with the square of the depth. */
#define MAX_DEPTH 128
/* Other users can put any number of entries into a folder that each cause a warning. */
#define MOST_WARNINGS 1000
/* In nested folders with long names, an entry with a path of 4 KiB costs other users only 20 bytes of disk space. The
 * limit is for the sum of the bytes by which the paths of their files and folders exceed the usual length. */
#define USUAL_LENGTH    256
#define MOST_LONG_BYTES ((size_t)64 << 20)
/* For trust_way.long_steps, which take about 10 us each. */
#define MOST_LONG_STEPS 200000

/* The folder being read, and the folders above it: a link back to one of them is a loop. */
struct level {
	const struct level *above;
	bool linked;    /* reached through a link */
	unsigned depth; /* 0: the searched folder */
	dev_t device;
	ino_t inode;
};

struct finder {
	const struct gd_find_options *options;
	struct find_patterns patterns;
	const struct find_again *again; /* or NULL */
	struct find_result *found;
	struct trust_way way; /* `replaceable`: of all entries together; `chooser`: of the last entry examined */
	bool unsure;          /* a file was examined whose owner depends on `replaceable`, which was still false */
	uid_t user;
	size_t unsaid;      /* warnings beyond the limit */
	size_t long_bytes;  /* see MOST_LONG_BYTES */
	size_t num_long;    /* skipped for this reason */
	size_t num_links;   /* skipped because of MOST_LONG_STEPS */
	size_t root_length; /* of the searched folder's path */
	bool has_excluded;
	bool root_excluded; /* the searched folder itself */
	dev_t excluded_device;
	ino_t excluded_inode;
	unsigned seen;
	struct path_map visited; /* folders that were read, by inode_key(); the numbers are unused */
	/* Sparse files, by inode_key(); the number is 1 if there is an objection to the holes of the file. Another user
	 * can give a file any number of names, and counting its holes takes a millisecond. */
	struct path_map sparse;
	const char *objection_to_holes; /* the last one */
};

static int vwarn(struct finder *f, const char *format, va_list args) GD_PRINTF(2, 0);
static int vwarn(struct finder *f, const char *format, va_list args)
{
	cleanup_(text_finish) struct text words = {0};
	if (f->found->files.num_warnings >= MOST_WARNINGS) {
		f->unsaid++;
		return 0;
	}
	text_vappendf(&words, format, args);
	return find_result_warn(f->found, &words);
}

static int warn(struct finder *f, const char *format, ...) GD_PRINTF(2, 3);
static int warn(struct finder *f, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int r = vwarn(f, format, args);
	va_end(args);
	return r;
}

/* Warns, and counts a file or folder that is missing in the result. */
static int skip(struct finder *f, const char *format, ...) GD_PRINTF(2, 3);
static int skip(struct finder *f, const char *format, ...)
{
	va_list args;
	f->found->files.skipped++;
	va_start(args, format);
	int r = vwarn(f, format, args);
	va_end(args);
	return r;
}

/* At the end of the search. */
static int warn_of_rest(struct finder *f)
{
	cleanup_(text_finish) struct text words = {0}, paths = {0}, links = {0};
	text_appendf(&words, "%zu more file%s or folder%s skipped without a warning", f->unsaid,
		f->unsaid == 1 ? "" : "s", f->unsaid == 1 ? "" : "s");
	text_appendf(&paths,
		"%zu file%s or folder%s of other users skipped: too many long paths; set trust_input to include them",
		f->num_long, f->num_long == 1 ? "" : "s", f->num_long == 1 ? "" : "s");
	text_appendf(&links,
		"%zu symbolic link%s of other users skipped: following so many links with long targets would take too long; set trust_input to include them",
		f->num_links, f->num_links == 1 ? "" : "s");
	int r = f->unsaid ? find_result_warn(f->found, &words) : 0;
	if (r == 0 && f->num_long)
		r = find_result_warn(f->found, &paths);
	return r < 0 || f->num_links == 0 ? r : find_result_warn(f->found, &links);
}

/* ---- One folder ----------------------------------------------------------- */

#define KEY_SIZE 64
static size_t inode_key(dev_t device, ino_t inode, char ret[KEY_SIZE])
{
	return (size_t)snprintf(ret, KEY_SIZE, "%jx:%jx", (uintmax_t)device, (uintmax_t)inode);
}

/* find_objection_to_holes() for a file that another user may have written or chosen; counts the holes only once. */
static const char *find_holes(struct finder *f, int fd, const char *name, const struct stat *st)
{
	char key[KEY_SIZE];
	if (!find_may_have_holes(st))
		return NULL;
	size_t length = inode_key(st->st_dev, st->st_ino, key);
	const size_t *known = path_map_get(&f->sparse, key);
	if (known)
		return *known ? f->objection_to_holes : NULL;
	const char *objection = find_objection_to_holes(fd, name, st, &f->way);
	if (objection)
		f->objection_to_holes = objection;
	const char *copy = arena_copy(&f->found->arena, key, length);
	if (copy)
		(void)path_map_put(&f->sparse, copy, objection != NULL); /* out of memory: counted again */
	return objection;
}

/* Examines a name. Most entries are files that are not links: these are not opened, because their folder was checked
 * (note_writers()). */
static int look_at(struct finder *f, int fd, const struct dirent *d, bool wanted, struct stat *ret, uid_t *ret_owner,
	const char **ret_objection)
{
	cleanup_(closep) int entry = -1;
	bool trust = f->options->trust_input, plain = false;
	f->way.chooser = 0;
	*ret_objection = NULL;
	if (d->d_type == DT_REG)
		plain = fstatat(fd, d->d_name, ret, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(ret->st_mode);
	int r = plain ? 0 : find_open_entry(fd, d->d_name, trust, &f->way, &entry, ret, ret_objection);
	if (r < 0)
		return r;
	int at = plain ? fd : entry;
	const char *name = plain ? d->d_name : NULL;
	*ret_owner = find_owner_of(at, name, ret, &f->way, f->user);
	f->unsure = f->unsure || (!f->way.replaceable && S_ISREG(ret->st_mode) && ret->st_mode & S_IWGRP);
	if (wanted && !trust && *ret_owner)
		*ret_objection = find_holes(f, at, name, ret);
	return *ret_objection ? -EPERM : 0;
}

/* Examines a name. Returns 1 if the entry is not usable, and warns if the reason is not obvious. */
static int examine(struct finder *f, int fd, const struct dirent *d, const char *prefix, bool wanted, struct stat *ret,
	uid_t *ret_owner)
{
	const char *objection;
	int r = look_at(f, fd, d, wanted, ret, ret_owner, &objection);
	if (r == 0)
		return 0;
	if (r == -ELOOP && f->way.long_steps == MOST_LONG_STEPS) {
		f->found->files.skipped++;
		f->num_links++;
		return 1;
	}
	if (!objection && (!wanted || (r == -ENOENT && d->d_type != DT_LNK)))
		return 1; /* removed meanwhile */
	if (objection && !wanted && !S_ISDIR(ret->st_mode))
		return 1; /* no input: examined because it could be a link to a folder */
	int said = skip(f, "'%s%s' is skipped: %s%s", prefix, d->d_name,
		objection      ? objection
		: r == -ENOENT ? "the link is broken"
			       : error_words(r),
		objection ? find_advice(objection) : "");
	return said < 0 ? said : 1;
}

static bool is_within_limit(struct finder *f, size_t length, uid_t owner)
{
	if (!owner || !f->way.replaceable || f->options->trust_input || length <= USUAL_LENGTH)
		return true;
	if (length - USUAL_LENGTH > MOST_LONG_BYTES - f->long_bytes)
		return false;
	f->long_bytes += length - USUAL_LENGTH;
	return true;
}

static int add(struct finder *f, const struct dirent *d, const char *prefix, const struct stat *st, uid_t owner,
	struct find_listing *to)
{
	if (is_within_limit(f, to->name_at + strlen(d->d_name), owner))
		return find_listing_add(to, &f->found->arena, prefix, d, st, owner);
	f->found->files.skipped++;
	f->num_long++;
	return 0;
}

/* Handles a name. Does not stat names that can be neither a wanted file nor a folder to enter. */
static int take_name(struct finder *f, int fd, const struct dirent *d, const char *prefix, struct find_listing *to)
{
	const char *name = d->d_name;
	size_t length = strlen(name);
	if (name[0] == '.' && (length == 1 || (name[1] == '.' && length == 2)))
		return 0;
	if (f->root_excluded && !*prefix && outputs_is_reserved(name))
		return 0;
	bool wanted = find_patterns_match(&f->patterns, name, length);
	bool may_be_folder = d->d_type == DT_DIR || d->d_type == DT_LNK || d->d_type == DT_UNKNOWN;
	if (d->d_type == DT_DIR && !f->options->recursive) {
		f->found->files.other_folders += name[0] != '.';
		return 0;
	}
	if (d->d_type == DT_REG && !wanted) {
		if (name[0] != '.')
			find_result_note_other(f->found, prefix, to->name_at, name);
		return 0;
	}
	if (!wanted && (!may_be_folder || !f->options->recursive))
		return 0;
	if (f->root_length + to->name_at + length + FIND_PATH_MARGIN >= PATH_MAX)
		return skip(f, "'%.60s…' is skipped: its path is too long", to->name_at ? prefix : name);
	struct stat st;
	uid_t owner = 0;
	int r = examine(f, fd, d, prefix, wanted, &st, &owner);
	if (r != 0)
		return r < 0 ? r : 0;
	bool is_folder = S_ISDIR(st.st_mode);
	if (is_folder && !f->options->recursive)
		f->found->files.other_folders++;
	if (is_folder ? !f->options->recursive || name[0] == '.' : !wanted || !S_ISREG(st.st_mode))
		return 0;
	return add(f, d, prefix, &st, owner, to);
}

static int read_folder(struct finder *f, DIR *dir, const char *prefix, struct find_listing *to)
{
	for (;;) {
		errno = 0;
		const struct dirent *d = readdir(dir);
		if (!d && errno != 0) {
			return skip(f, "folder '%s' could not be read completely: %s", *prefix ? prefix : ".",
				error_words(-errno));
		}
		if (!d)
			return 0;
		if (++f->seen % ASK_EVERY == 0 && f->options->stopped && f->options->stopped(f->options->context))
			return -ECANCELED;
		int r = take_name(f, dirfd(dir), d, prefix, to);
		if (r < 0)
			return r;
	}
}

/* ---- Folder by folder ----------------------------------------------------- */

static int walk(struct finder *f, int fd, const char *prefix, bool is_link, const struct level *above);

/* Notes whether another user can add entries to this folder. */
static void note_writers(struct finder *f, int fd)
{
	struct stat st;
	if (!f->way.replaceable)
		f->way.replaceable =
			fstat(fd, &st) < 0 || trust_objection_cached(fd, &st, &f->way.private_group) != NULL;
}

static int enter(struct finder *f, const char *path, bool is_link, const struct level *above)
{
	cleanup_(freep) char *prefix = NULL;
	if (asprintf(&prefix, "%s/", path) < 0) {
		prefix = NULL;
		return -ENOMEM;
	}
	/* Anyone who can write to a folder on the path may have replaced it with a link since it was read. */
	struct stat st;
	const char *objection;
	cleanup_(closep) int entry = -1;
	if (above->depth == MAX_DEPTH)
		return skip(f, "folder '%.60s…' is skipped: more than %d nested folders", path, MAX_DEPTH);
	int r = find_open_entry(f->found->root, path, f->options->trust_input, &f->way, &entry, &st, &objection);
	/* Noted even if the folder cannot be read now: its owner can change that. */
	if (r == 0)
		note_writers(f, entry);
	int fd = r < 0 ? -1 : openat(entry, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = -errno;
	close_fd(&entry);
	if (r == -ENOENT)
		return 0; /* removed meanwhile */
	if (r < 0)
		return skip(f, "folder '%s' is skipped: %s%s", path, objection ? objection : error_words(r),
			objection ? find_advice(objection) : "");
	return walk(f, fd, prefix, is_link, above);
}

/*
 * Why a folder is not read again, or NULL. Links can make billions of paths to a few folders, so a folder that was read
 * is not read again through a link. A folder reached without a link is always read: some file systems reuse inode
 * numbers.
 */
static int find_repetition(struct finder *f, const struct level *here, const char **ret_why)
{
	char key[KEY_SIZE];
	*ret_why = NULL;
	for (const struct level *l = here->above; l; l = l->above)
		if (l->device == here->device && l->inode == here->inode) {
			*ret_why = "it is a link to one of its own parent folders";
			return 0;
		}
	size_t length = inode_key(here->device, here->inode, key);
	if (!path_map_get(&f->visited, key)) {
		char *copy = arena_copy(&f->found->arena, key, length);
		return copy && path_map_put(&f->visited, copy, 0) ? 0 : -ENOMEM;
	}
	if (here->linked)
		*ret_why = "it was already found through another path";
	return 0;
}

/* Reads the folder to its end and closes it before going deeper: only one folder is open at a time. */
static int list_folder(struct finder *f, int fd, const char *prefix, const struct level *here, struct find_listing *ret)
{
	const char *why;
	cleanup_(closedirp) DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	int r = find_repetition(f, here, &why);
	if (r < 0)
		return r;
	if (why)
		return warn(f, "folder '%s' is skipped: %s", prefix, why);
	bool excluded = f->has_excluded && here->above && here->device == f->excluded_device &&
			here->inode == f->excluded_inode;
	if (excluded)
		return 0;
	note_writers(f, dirfd(dir));
	r = f->again ? f->again->on_folder(f->again->context, dirfd(dir), prefix) : 0;
	return r < 0 ? r : read_folder(f, dir, prefix, ret);
}

static int walk(struct finder *f, int fd, const char *prefix, bool is_link, const struct level *above)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	struct level here = {.above = above,
		.linked = is_link || (above && above->linked),
		.depth = above ? above->depth + 1 : 0,
		.device = st.st_dev,
		.inode = st.st_ino};
	cleanup_(find_listing_finish) struct find_listing folder = {.name_at = strlen(prefix)};
	int r = list_folder(f, fd, prefix, &here, &folder);
	if (r < 0)
		return r;
	find_listing_sort(&folder);
	for (size_t i = 0; r == 0 && i < folder.count; i++) {
		const struct find_entry *e = &folder.list[i];
		r = e->is_folder ? enter(f, e->path, e->is_link, &here) : find_result_keep(f->found, e);
	}
	return r;
}

/* ---- The search ----------------------------------------------------------- */

static void note_excluded(struct finder *f, int root)
{
	struct stat st, searched;
	if (!f->options->exclude || stat(f->options->exclude, &st) < 0)
		return;
	f->has_excluded = true;
	f->excluded_device = st.st_dev;
	f->excluded_inode = st.st_ino;
	f->root_excluded = fstat(root, &searched) == 0 && searched.st_dev == st.st_dev && searched.st_ino == st.st_ino;
}

/* The path of a folder that was searched before had no links. */
static int open_root(struct finder *f, const char *folder)
{
	char path[PATH_MAX];
	struct find_result *found = f->found;
	int r = find_open_root(folder, &f->way, &found->root, path);
	if (r < 0)
		return r;
	if (f->again && f->way.chooser)
		return -EPERM;
	f->root_length = strlen(path);
	found->files.folder = arena_copy(&found->arena, path, f->root_length);
	if (!found->files.folder)
		return -ENOMEM;
	found->chosen_part = f->way.chooser ? found->files.folder : find_names_of_others(found->files.folder);
	return 0;
}

static int find(struct finder *f, const char *folder, struct gd_error *err)
{
	int r = find_patterns_init(&f->patterns, f->options->patterns, f->options->num_patterns, err);
	if (r < 0)
		return r;
	r = open_root(f, folder);
	int fd = r < 0 ? -1 : openat(f->found->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, r, "cannot search folder '%s': %s", folder,
			r == -EPERM ? "it was replaced with a symbolic link of another user" : error_words(r));
	note_excluded(f, fd);
	r = walk(f, fd, "", false, NULL);
	if (r == 0)
		r = warn_of_rest(f);
	if (r == 0)
		r = find_result_publish(f->found);
	return r < 0 ? error_set(err, r, "cannot search folder '%s': %s", folder, error_words(r)) : 0;
}

/* Sets *f, also on failure; its `found` is the result. open: see find_again.open_to_others. */
static int find_once(struct finder *f, const char *folder, const struct gd_find_options *options,
	const struct find_again *again, bool open, struct gd_error *err)
{
	*f = (struct finder){.options = options, .again = again, .way = TRUST_WAY_INIT, .user = geteuid()};
	f->way.replaceable = open;
	f->way.most_long_steps = options->trust_input ? 0 : MOST_LONG_STEPS;
	f->found = calloc(1, sizeof(*f->found));
	if (!f->found)
		return error_set(err, -ENOMEM, "cannot search folder '%s': out of memory", folder);
	f->found->files.size = sizeof(f->found->files);
	f->found->root = -1;
	int r = find(f, folder, err);
	f->found->open_to_others = f->way.replaceable;
	find_patterns_finish(&f->patterns);
	path_map_finish(&f->visited);
	path_map_finish(&f->sparse);
	if (r < 0)
		gd_files_free(&f->found->files);
	return r;
}

int find_files(const char *folder, const struct gd_find_options *options, const struct find_again *again,
	struct gd_files **ret, struct gd_error *err)
{
	struct finder f;
	int r = find_once(&f, folder, options, again, again && again->open_to_others, err);
	/* A file must have the same owner whether it was found before or after the first folder that is open to others.
	 */
	if (r == 0 && f.unsure && f.way.replaceable) {
		gd_files_free(&f.found->files);
		r = find_once(&f, folder, options, again, true, err);
	}
	if (r == 0)
		*ret = &f.found->files;
	return r;
}

int gd_files_find(
	const char *folder, const struct gd_find_options *options, struct gd_files **ret, struct gd_error *err)
{
	struct gd_find_options o = {.size = sizeof(o)};
	int r = options ? sized_read(&o, sizeof(o), options, "gd_find_options", err) : 0;
	return r < 0 ? r : find_files(folder, &o, NULL, ret, err);
}
