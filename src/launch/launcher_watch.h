/* SPDX-License-Identifier: MIT */
/*
 * The launcher's watch of its input folder, from inside: launcher_watch.c (the run), launcher_watch_files.c (one file)
 * and launcher_watch_search.c (the whole folder).
 *
 * A name is considered when it was closed after writing, renamed or linked into place, or found by a search. Searches
 * are made at the beginning, when folders come or go, when the kernel has dropped events, and every few seconds if
 * folders cannot be watched. Whether a file is still being written is looked at when its turn has come: then it waits
 * aside.
 */
#ifndef LAUNCH_LAUNCHER_WATCH_H
#define LAUNCH_LAUNCHER_WATCH_H

#include "launch/find_pattern.h"
#include "launch/folder_watch.h"
#include "launch/launcher_private.h"

#define WATCH_PART    20       /* searching and sorting take at most this part of the time */
#define WATCH_SKIPPED SIZE_MAX /* in place of a number: an earlier run has done it */

enum watch_state {
	WATCH_WAITING,
	WATCH_BEGUN,
	WATCH_BEGUN_AGAIN, /* with a worker, and considered meanwhile */
	WATCH_OVER,
	WATCH_ASIDE, /* being written */
	WATCH_GONE,
};

struct launch_watch {
	struct folder_watch *folders; /* NULL: not possible */
	struct find_patterns patterns;
	struct path_map known; /* the last number of each path, or WATCH_SKIPPED */
	struct arena arena;    /* paths and files of this run */
	struct path_map said;  /* warnings; the numbers mean nothing */
	bool root_is_output;   /* the launcher's own files are among the names */
	bool told_limit;
	int lost;        /* why the folder could not be searched the last time, which was said; or 0 */
	bool remote;     /* on a network file system */
	uint8_t *states; /* by number */
	size_t states_capacity;
	size_t *fresh; /* numbers that are not in the queue yet */
	size_t num_fresh, fresh_capacity;
	size_t *aside;
	size_t num_aside, aside_capacity;
	uint64_t total;          /* files, with those that were skipped */
	uint64_t search_at_ns;   /* not before */
	uint64_t searched_at_ns; /* the last one */
	uint64_t serve_at_ns;    /* during a search: when the workers are due again */
	uint64_t aside_at_ns;
	uint64_t sort_at_ns;
	bool unsorted;
};

/* ---- launcher_watch_files.c ---- */

int watch_set_state(struct launch_watch *w, size_t i, enum watch_state state);
/* The file is to be queued. */
int watch_make_fresh(struct launch_watch *w, size_t i);
/* A file that may be new, or have changed. */
int watch_consider(struct gd_launcher *l, const struct gd_found *f);
/* Looks at a path: 1 if it is a file that can be considered. */
int watch_look_at(struct gd_launcher *l, const char *path, struct gd_found *ret);
/* A name of which the kernel tells; `context` is the launcher. See folder_watch_read(). */
int watch_take_name(void *context, const char *path, bool created);

/* ---- launcher_watch_search.c ---- */

void watch_search_if_due(struct gd_launcher *l, uint64_t now_ns);
/* The same words are said once: others can make a link and remove it all the time. */
void watch_warn_once(struct gd_launcher *l, const char *words);

#endif
