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

/* The folder for logs may be inside the directory, or next to it in one that was renamed. */
static int follow_log_dir(struct run *run, const char *old_parent, const char *journal_path)
{
	char *moved;
	cleanup_(freep) char *parent = strndup(journal_path, (size_t)(strrchr(journal_path, '/') - journal_path));
	int r = parent ? moved_path_find(run->log_dir, old_parent, parent, &moved) : -ENOMEM;
	if (r < 0)
		return error_set(&run->err, r, "log directory: out of memory");
	if (r > 0) {
		free(run->log_dir);
		run->log_dir = moved;
	}
	return 0;
}

static bool is_same_directory(const struct journal *a, const struct journal *b)
{
	struct stat one, other;
	return fstat(a->parent_fd, &one) == 0 && fstat(b->parent_fd, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

int run_follow_queue(struct run *run, struct journal **j)
{
	cleanup_(freep) char *path = NULL;
	cleanup_(journal_closep) struct journal *moved = NULL;
	int r = journal_locate(*j, &path);
	if (r < 0)
		return error_set(&run->err, r, "cannot follow journal '%s': its directory was renamed: %s", (*j)->path,
			error_words(r));
	r = follow_log_dir(run, (*j)->parent_path, path);
	if (r < 0)
		return r;
	free(run->queue.journal_path);
	run->queue.journal_path = take_ptr(path);
	run->queue.adds = true; /* the journal exists, also that of a personal queue, wherever it was found */
	run->made_queue = false;
	r = queue_choice_open(&run->queue, &moved, &run->err);
	if (r == 0 && !is_same_directory(*j, moved)) {
		journal_remove_empty(moved);
		r = error_set(
			&run->err, -ESTALE, "cannot follow journal '%s': its directory was renamed again", (*j)->path);
	}
	if (r == 0)
		r = log_dir_check(&run->queue, run->log_dir, &run->err);
	if (r < 0)
		return r;
	say("the directory of the queue was renamed: the queue is now '%s'", moved->path);
	journal_close(*j);
	*j = take_ptr(moved);
	return 0;
}
