/* SPDX-License-Identifier: MIT */
/*
 * Adds lines to launch.jsonl: one when a run begins, and one for each file when it ends. If other users can choose
 * files, also one when a file gets its folder, in case this run is killed: the next run does not use a folder with
 * contents unless a line records it.
 *
 * One launcher at a time writes, under the lock of history_lock.h, which it holds from history_writer_open() to
 * history_writer_close(). Reading the file meanwhile (history.h) does not affect the lock. Lines that cannot be written
 * (the disk is full) are kept and retried with the next line.
 */
#ifndef LAUNCH_HISTORY_WRITER_H
#define LAUNCH_HISTORY_WRITER_H

#include "base/text.h"
#include "launch/history.h"
#include "launch/history_lock.h"

struct history_writer {
	struct history_lock lock;
	int fd; /* -1: closed */
	struct text pending;
	size_t pending_sent; /* bytes of pending that are in the file */
};

#define HISTORY_WRITER_CLOSED ((struct history_writer){.lock = {.fd = -1}, .fd = -1})

/* Creates the file if it is missing. -EBUSY while another launcher writes. `w` must be closed before. For `checked`,
 * see history_load(). */
int history_writer_open(struct history_writer *w, const char *path, bool checked, struct gd_error *err);
void history_writer_close(struct history_writer *w);
/*
 * Replaces the file at this path, which was opened before, with a copy for its owner alone: users who have the file
 * open see no later lines.
 */
int history_writer_make_private(struct history_writer *w, const char *path);
/* The size of the file now, or a negative errno value. */
int64_t history_writer_size(const struct history_writer *w);

struct history_run {
	const char *input;
	const char *worker; /* as text */
	const char *fingerprint;
	const struct gd_setting *settings;
	size_t num_settings;
	const char *mark; /* by which the program that started the launch recognizes this line; or NULL */
};

/* Lines are kept until history_writer_flush(). */
void history_writer_add_run(struct history_writer *w, const struct history_run *run);
/* Where and how often a file was processed; gpu -1: it reached no worker. node: of a cluster, or NULL. */
struct history_place {
	const char *node;
	int gpu;
	int attempt;
};
/* Records that the folder e->output belongs to the file, which will end later. */
void history_writer_add_start(struct history_writer *w, const struct history_entry *e);
void history_writer_add(
	struct history_writer *w, const struct history_entry *e, const struct history_place *place, const char *error);
int history_writer_flush(struct history_writer *w);
/* Lines that are missing or incomplete in the file. */
uint64_t history_writer_unwritten(const struct history_writer *w);
/* Syncs the file to the disk. */
int history_writer_sync(struct history_writer *w);

#endif
