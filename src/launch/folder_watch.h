/* SPDX-License-Identifier: MIT */
/*
 * Names of files that may have become complete, in a tree of folders: files that were closed after writing, renamed or
 * linked into place.
 *
 * Each search of the tree adds the folders that it enters, before it reads them, so that nothing is missed in between.
 * The kernel watches folders, not paths: when a folder is created, removed or renamed, the paths of events may be wrong
 * until the tree is searched again. folder_watch_is_stale() returns true until then, and also when the kernel has
 * dropped events.
 */
#ifndef LAUNCH_FOLDER_WATCH_H
#define LAUNCH_FOLDER_WATCH_H

#include <stdbool.h>
#include <stddef.h>

struct folder_watch;

/* A new watch is stale. recursive: events of subfolders count, too. -EMFILE: the limit of inotify instances is
 * reached. */
int folder_watch_open(bool recursive, struct folder_watch **ret);
/* NULL is allowed. */
void folder_watch_close(struct folder_watch *w);
/* Readable when there are events. */
int folder_watch_fd(const struct folder_watch *w);

void folder_watch_begin_search(struct folder_watch *w);
/* Adds the folder `fd`, whose entries have paths that begin with `prefix`. -ENOMEM; see folder_watch_error() for other
 * errors.
 */
int folder_watch_add(struct folder_watch *w, int fd, const char *prefix);
/* complete: all folders were entered; stop watching those that were not. */
void folder_watch_end_search(struct folder_watch *w, bool complete);
/* Why a folder could not be watched in the last search: -ENOSPC: the limit of watches is reached; 0: all are watched.
 */
int folder_watch_error(const struct folder_watch *w);

/*
 * Calls `found` for each name, with its path. `created`: the name is new, and the file may be incomplete. Returns 0, a
 * negative value of `found`, or -ENOMEM.
 */
int folder_watch_read(
	struct folder_watch *w, int (*found)(void *context, const char *path, bool created), void *context);
bool folder_watch_is_stale(const struct folder_watch *w);
void folder_watch_set_stale(struct folder_watch *w);

#endif
