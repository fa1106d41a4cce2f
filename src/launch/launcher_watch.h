/* SPDX-License-Identifier: MIT */
/*
 * Internals of the launcher's watch of its input folder: launcher_watch.c (the run), launcher_watch_files.c (one file)
 * and launcher_watch_search.c (the whole folder).
 *
 * A file is considered when it was closed after writing, renamed or linked into place, or found by a search. Searches
 * are made at the beginning, when folders are created or removed, when the kernel has dropped events, and every few
 * seconds if folders cannot be watched or are on a network file system. When the turn of a file has come and it is
 * still being written, it is set aside. Other users can keep any number of files in this state, so few of theirs are
 * checked at a time.
 */
#ifndef LAUNCH_LAUNCHER_WATCH_H
#define LAUNCH_LAUNCHER_WATCH_H

#include "launch/find_pattern.h"
#include "launch/folder_watch.h"
#include "launch/launcher_private.h"

#define WATCH_PART      20 /* searching and sorting take at most 1/WATCH_PART of the time; exception: SEARCH_MOST_NS */
#define SEARCH_LEAST_NS (100 * NS_PER_MS) /* between searches */
#define WATCH_SKIPPED   SIZE_MAX          /* instead of a number: done by an earlier run */

enum watch_state {
	WATCH_WAITING,
	WATCH_BEGUN,
	WATCH_BEGUN_AGAIN, /* with a worker, and reported again meanwhile */
	WATCH_OVER,
	WATCH_ASIDE, /* being written */
	WATCH_GONE,
};

struct launch_watch {
	struct folder_watch *folders; /* NULL: not possible */
	struct find_patterns patterns;
	struct path_map known; /* the last number of each path, or WATCH_SKIPPED */
	struct arena arena;    /* paths and files of this run */
	struct path_map said;  /* warnings already issued; the numbers are unused */
	bool told_all;         /* no further warnings are issued */
	bool root_is_output;   /* the launcher's own files are among the names */
	bool told_limit;
	int lost;        /* why the last search failed, already reported; or 0 */
	bool remote;     /* on a network file system */
	uint8_t *states; /* by number */
	size_t states_capacity;
	size_t *fresh; /* numbers that are not in the queue yet */
	size_t num_fresh, fresh_capacity;
	struct launch_line aside, aside_of_others;
	uint64_t total;                     /* files, including skipped ones */
	uint64_t search_at_ns;              /* no search before this time */
	uint64_t searched_at_ns;            /* the last search */
	uint64_t compare_at_ns;             /* when to compare the folder at the path with the watched one */
	uint64_t serve_at_ns;               /* see watch_serve_if_due() */
	uint64_t aside_at_ns, others_at_ns; /* when to check the files set aside */
	uint64_t sort_at_ns;
	bool unsorted;
};

/* ---- launcher_watch_files.c ---- */

int watch_set_state(struct launch_watch *w, size_t i, enum watch_state state);
/* Queues the file. */
int watch_make_fresh(struct launch_watch *w, size_t i);
/* Handles a file that may be new or changed. For the owner, see find_owner(). */
int watch_consider(struct gd_launcher *l, const struct gd_found *f, uid_t owner);
/* Checks a path: 1 if it is a usable file. */
int watch_look_at(struct gd_launcher *l, const char *path, struct gd_found *ret, uid_t *ret_owner);
/* A name reported by the kernel; `context` is the launcher. See folder_watch_read(). */
int watch_take_name(void *context, const char *path, bool created);

/* ---- launcher_watch_search.c ---- */

void watch_search_if_due(struct gd_launcher *l, uint64_t now_ns);
/*
 * Searching a large folder, or checking many names that other users have created, takes seconds; workers must not wait
 * for their next file meanwhile.
 */
void watch_serve_if_due(struct gd_launcher *l);
/*
 * Issues the same warning only once, and a limited number of them: other users can make and remove links repeatedly.
 * True if it was issued.
 */
bool watch_warn_once(struct gd_launcher *l, const char *words);

#endif
