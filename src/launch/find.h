/* SPDX-License-Identifier: MIT */
/* Finding files: internal functions in addition to gd_files_find(). */
#ifndef LAUNCH_FIND_H
#define LAUNCH_FIND_H

#include <limits.h>
#include <sys/stat.h>

#include "base/trust.h"
#include "gpu_dispatch_launch.h"

/* Bytes for the names of a result's folder and of a file in it, in addition to the path of the input. */
#define FIND_PATH_MARGIN 512

/* Called for each folder before its entries are read, with its descriptor and the prefix of their paths. A negative
 * return value ends the search. */
typedef int find_folder_fn(void *context, int fd, const char *prefix);

/* Another search of the folder of a gd_files. Its path had no links at the first search. */
struct find_again {
	bool open_to_others; /* find_is_open_to_others() is known to be true */
	find_folder_fn *on_folder;
	void *context;
};

/* gd_files_find() with complete options. again: NULL, or the folder was searched before. */
int find_files(const char *folder, const struct gd_find_options *options, const struct find_again *again,
	struct gd_files **ret, struct gd_error *err);

/*
 * Whether another user can change which files the search finds, and so have private files of this user processed: the
 * other user can write a folder that was searched or that a link leads to, or can replace one of them.
 */
bool find_is_open_to_others(const struct gd_files *files);

/*
 * The part of the folder's path that another user may have chosen: all of it if a link of another user leads there,
 * otherwise see find_names_of_others(). NULL: none.
 */
const char *find_chosen_part(const struct gd_files *files);

/*
 * The other user who owns file i of a search, or whose link leads to it; 0: this user or root.
 * TRUST_SEVERAL_USERS is possible, also for a file of this user or root that others may have written or linked: if they
 * can change the input folder, they may have put it there.
 */
uid_t find_owner(const struct gd_files *files, size_t i);
/* The same for a file that find_open_entry() has opened, or for an entry `name` that is not a link; user: this user. */
uid_t find_owner_of(int fd, const char *name, const struct stat *st, struct trust_way *way, uid_t user);

/* The searched folder, opened with O_PATH, until gd_files_free(). Its path may lead elsewhere by now. */
int find_root(const struct gd_files *files);

/*
 * Opens the input folder with O_PATH, and notes how other users affect where the path leads. *ret_path: its path
 * without links.
 */
int find_open_root(const char *path, struct trust_way *way, int *ret_fd, char ret_path[PATH_MAX]);

/*
 * Opens the folder again, by the path of a gd_files. -EPERM: the path now contains a link of another user, who would
 * choose the folder.
 */
int find_open_folder(const char *path, int *ret_fd);

/*
 * The components of an absolute path without links, starting with the first one whose name another user may have
 * chosen: its directory lets others rename entries, or, if it is sticky, create them, and the component is not trusted.
 * NULL: none.
 */
const char *find_names_of_others(const char *path);

/*
 * Opens an entry of an input folder, which may be a link, with O_PATH. -EPERM: it is not used as input, and
 * *ret_objection says why, see trust_objection_behind_link(); *ret is set, too. trust: the user accepts all links.
 */
int find_open_entry(int folder_fd, const char *path, bool trust, struct trust_way *way, int *ret_fd, struct stat *ret,
	const char **ret_objection);

/*
 * NULL, or why a file is not used as input: another user may have written it or chosen it by a link (find_owner_of()),
 * and it has many holes. Another user can make a file of terabytes without using the disk, and a
 * worker would read zeros for days. name: an entry of the directory fd, or NULL: fd is the file, and O_PATH is enough.
 */
const char *find_objection_to_holes(int fd, const char *name, const struct stat *st, struct trust_way *way);

/* Whether find_objection_to_holes() would have to count the holes. */
bool find_may_have_holes(const struct stat *st);

/* Advice about an objection, to be appended to it. Do not append it if the entry was replaced during a run. */
const char *find_advice(const char *objection);

#endif
