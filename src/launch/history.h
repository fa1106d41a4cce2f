/* SPDX-License-Identifier: MIT */
/*
 * What runs have done: launch.jsonl in the output folder, a line for each file that
 * came to an end, as it does.
 *
 * One launcher at a time writes, under the lock of history_lock.h. A line that was
 * torn by a crash, or that somebody else wrote, is skipped by the next reader. What
 * cannot be written (the disk is full) is kept, and tried again with the next line.
 */
#ifndef LAUNCH_HISTORY_H
#define LAUNCH_HISTORY_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/text.h"
#include "gpu_dispatch_launch.h"
#include "launch/history_lock.h"
#include "launch/path_map.h"

#define HISTORY_NAME    "launch.jsonl"
#define HISTORY_VERSION 1

/* The last thing that was said of a file. */
struct history_entry {
	const char *file;   /* below the input folder */
	const char *output; /* below the output folder */
	const char *input;  /* the input folder of that run, or NULL */
	uint64_t size_bytes;
	int64_t mtime_ns;
	char fingerprint[HASH_TEXT]; /* of worker and settings */
	double audio_seconds;        /* -1: not known */
	double processing_seconds;
	bool done;
};

struct history {
	bool checked; /* set it: refuse a file that other users can write, who could say that anything is done */
	struct history_entry *entries;
	size_t count, capacity;
	struct path_map by_file;
	struct arena arena;
	struct intern inputs;
	uint64_t bad_lines, first_bad_line;
	uint64_t size_read; /* bytes */
	/* For writing. */
	struct history_lock lock;
	int fd; /* -1: closed */
	struct text pending;
	size_t pending_sent; /* bytes of pending that are in the file */
};

void history_init(struct history *h);
void history_finish(struct history *h);

/* Loads the file; a missing file has no lines. */
int history_load(struct history *h, const char *path, struct gd_error *err);
const struct history_entry *history_find(const struct history *h, const char *file);

/* Returns -EPERM and says: refusing to use 'path': it can be written by its group; what to do. */
int history_refuse(const char *path, const char *objection, struct gd_error *err);

/* Opens for writing, made if need be. -EBUSY while another launcher does. */
int history_open(struct history *h, const char *path, struct gd_error *err);

struct history_run {
	const char *input;
	const char *worker; /* in words */
	const char *fingerprint;
	const struct gd_setting *settings;
	size_t num_settings;
};

/* Lines are kept until history_flush(). */
void history_add_run(struct history *h, const struct history_run *run);
void history_add(struct history *h, const struct history_entry *e, int gpu, int attempt, const char *error);
int history_flush(struct history *h);
/* Lines that are not in the file, or not whole. */
uint64_t history_unwritten(const struct history *h);
/* On to the disk itself. */
int history_sync(struct history *h);

#endif
