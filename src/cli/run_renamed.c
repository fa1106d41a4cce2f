/* SPDX-License-Identifier: MIT */
/* `gpuq run` if the directory of its queue, or one above it, is renamed. */
#include "cli/run_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/log_dir.h"
#include "cli/say.h"
#include "queue/journal/moved_path.h"

/* The directory may be renamed again before it is opened. */
#define MOST_TRIES 100

/* If the renamed directory contains the folder for logs, too, that folder has a new path. */
static int follow_log_dir(struct run *run, const struct journal *old, const struct journal *moved)
{
	char *log_dir;
	int r = moved_path_find(run->log_dir, old->parent_path, moved->parent_path, &log_dir);
	if (r < 0)
		return error_set(&run->err, r, "log directory: out of memory");
	if (r > 0) {
		free(run->log_dir);
		run->log_dir = log_dir;
	}
	return log_dir_check(&run->queue, run->log_dir, &run->err);
}

static bool is_same_directory(const struct journal *a, const struct journal *b)
{
	struct stat one, other;
	return fstat(a->parent_fd, &one) == 0 && fstat(b->parent_fd, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* Opens the journal at run->queue.journal_path, where `old` was a moment ago. */
static int open_there(struct run *run, const struct journal *old, struct journal **ret)
{
	cleanup_(journal_closep) struct journal *moved = NULL;
	int r = queue_choice_open(&run->queue, &moved, &run->err);
	if (r < 0)
		return r;
	if (!is_same_directory(old, moved)) {
		journal_remove_empty(moved);
		return error_set(
			&run->err, -ESTALE, "cannot follow journal '%s': its directory was renamed again", old->path);
	}
	*ret = take_ptr(moved);
	return 0;
}

static int open_moved(struct run *run, const struct journal *old, struct journal **ret)
{
	int r = -ESTALE;
	for (int tries = 0; r < 0 && tries < MOST_TRIES; tries++) {
		cleanup_(freep) char *path = NULL;
		int e = journal_locate(old, &path);
		if (e < 0)
			return error_set(&run->err, e, "cannot follow journal '%s': its directory was renamed: %s",
				old->path, error_words(e));
		if (tries > 0 && strcmp(path, run->queue.journal_path) == 0)
			break; /* the error has another reason */
		free(run->queue.journal_path);
		run->queue.journal_path = take_ptr(path);
		r = open_there(run, old, ret);
	}
	return r;
}

int run_follow_queue(struct run *run, struct journal **j)
{
	cleanup_(journal_closep) struct journal *moved = NULL;
	/* The journal has moved: a personal queue must not count as missing because its old path is gone. */
	run->queue.adds = true;
	run->made_queue = false;
	int r = open_moved(run, *j, &moved);
	if (r == 0)
		r = follow_log_dir(run, *j, moved);
	if (r < 0)
		return r;
	say("the directory of the queue was renamed: the queue is now '%s'", moved->path);
	journal_close(*j);
	*j = take_ptr(moved);
	return 0;
}
