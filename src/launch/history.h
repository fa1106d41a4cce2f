/* SPDX-License-Identifier: MIT */
/*
 * The results of earlier runs, from launch.jsonl in the output folder: for each file, the last line counts.
 *
 * Loading changes nothing on disk and takes no lock; history_writer.h adds lines.
 */
#ifndef LAUNCH_HISTORY_H
#define LAUNCH_HISTORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/hash.h"
#include "gpu_dispatch_launch.h"
#include "launch/path_map.h"

#define HISTORY_NAME "launch.jsonl"

/* The last line about a file. Files of different owners with the same name are different files. */
struct history_entry {
	const char *file;   /* below the input folder */
	const char *output; /* below the output folder */
	const char *input;  /* the input folder of that run, or NULL */
	uid_t owner;        /* of the file, see find_owner() */
	uint64_t size_bytes;
	int64_t mtime_ns;
	char fingerprint[HASH_TEXT]; /* of worker and settings */
	double audio_seconds;        /* -1: unknown */
	double processing_seconds;
	bool done;
	bool has_folder; /* it has used its output folder */
};

struct history {
	struct history_entry *entries;
	size_t count, capacity;
	struct path_map by_file; /* by path; those of other users by "/OWNER/" and the path */
	struct arena arena;
	struct intern inputs;
	uint64_t bad_lines, first_bad_line;
	uint64_t size_read; /* bytes */
};

/*
 * Loads the file of the output folder dir_fd into an empty (zero) history; a missing file has no lines. path: its name
 * in messages. `checked`: refuse a file that other users can write, because they could mark any file as done. The
 * caller has checked the folder; otherwise others could put another file of this user there.
 */
int history_load(struct history *h, int dir_fd, const char *path, bool checked, struct gd_error *err);
/* The same for an open file. */
int history_read(struct history *h, int fd, const char *path, bool checked, struct gd_error *err);
void history_finish(struct history *h);
const struct history_entry *history_find(const struct history *h, const char *file, uid_t owner);

/* Returns -EPERM with the message "refusing to use 'path': it can be written by its group" and what to do. */
int history_refuse(const char *path, const char *objection, struct gd_error *err);

#endif
