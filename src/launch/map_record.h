/* SPDX-License-Identifier: MIT */
/*
 * The output of gpuq map, which is also the record of finished items.
 *
 * One line per item: {"n":NUMBER,"item":"CHECK","result":VALUE} or {"n":NUMBER,"item":"CHECK","error":"REASON"}. CHECK
 * identifies the item, so that the output of another input is recognized. A line counts if it ends with a newline;
 * bytes that a killed run left after the last newline are truncated before the next run appends. Failures can have a
 * separate file, with the same lines.
 *
 * A file is appended to only if all its lines have this format, and by one process at a time: FILE.lock. Pipes and
 * standard output are written without a record.
 */
#ifndef LAUNCH_MAP_RECORD_H
#define LAUNCH_MAP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "launch/history_lock.h"
#include "launch/items_task.h"

/* An item that has ended. It counts when its line is written. */
struct map_ended {
	uint64_t bytes; /* of its line in the input */
	int gpu;        /* -1: none */
	bool failed;
};

struct map_file {
	const char *name; /* for messages; NULL: there is no file */
	int fd;
	bool regular;
	bool created;
	uint64_t size; /* bytes that count */
	int dir_fd;    /* of its folder; -1: none */
	char *entry;   /* its name in that folder, without links */
	struct history_lock lock;
	struct text pending;     /* whole lines */
	struct map_ended *ended; /* the items of these lines */
	size_t num_ended, ended_capacity;
};

struct map_record {
	struct map_file output, errors;
	/* Items that are done, by number. */
	uint64_t *done, *bad; /* bits: the item has a line; the line is a failure */
	uint32_t *checks;
	size_t done_capacity, bad_capacity, checks_capacity;
	uint64_t count, failed; /* items done; those that failed */
	uint64_t outdated;      /* lines in the errors file for items that are also in the output */
	uint64_t highest;       /* highest item number; 0: none */
	bool is_private;        /* only this user may read new files; set before map_record_open() */
};

#define MAP_FILE_NONE                                                                                                  \
	{                                                                                                              \
		.fd = -1, .dir_fd = -1, .lock = {.fd = -1 }                                                            \
	}
#define MAP_RECORD_NONE ((struct map_record){.output = MAP_FILE_NONE, .errors = MAP_FILE_NONE})

/*
 * Opens the output ("-": standard output) and the errors file (or NULL), reads the finished items and truncates torn
 * lines. Unless `trust`, other users must not be able to write or replace the files, and must not have been able to
 * move them there (see map_origin.h). -EBUSY: another run uses one of them.
 */
int map_record_open(struct map_record *r, const char *output, const char *errors, bool trust, struct gd_error *err);
void map_record_finish(struct map_record *r);
/* The mode of new files. */
mode_t map_record_mode(const struct map_record *r);

/*
 * Makes the folder OUTPUT.logs for the logs of workers, which open them by path whenever they start. Unless `trust`,
 * other users must not be able to redirect that path. ret: the path, without links; empty: the output is not a file.
 */
int map_record_make_logs(const struct map_record *r, bool trust, struct text *ret, struct gd_error *err);

/* Whether an item is done, and its check value. */
bool map_record_has(const struct map_record *r, uint64_t number, uint32_t *ret_check);

/* A line of the record. `failed`: data is the reason, as text; otherwise it is the result, as JSON. */
void map_record_format(struct text *t, uint64_t number, uint32_t check, bool failed, const void *data, size_t size);
/* The file for such lines. */
struct map_file *map_record_file(struct map_record *r, bool failed);

/* Appends to `ended` after a line was appended to `pending`. 0 or -ENOMEM. */
int map_record_add_ended(struct map_file *f, const struct map_ended *ended);
/* Writes pending lines. After an error they are lost, and the file ends with a whole line. */
int map_record_flush(struct map_file *f, struct gd_error *err);
/* Syncs the files to the disk. */
int map_record_sync(struct map_record *r, struct gd_error *err);

/*
 * Removes the lines of failed items from the files, so that the items are processed again. Must not be used with
 * --ordered: there would be no place for their results.
 */
int map_record_retry_failed(struct map_record *r, struct gd_error *err);

/* ---- Between map_record_load.c and map_record_retry.c ---- */

#define MAP_RECORD_LINE_MAX (ITEMS_LINE_MAX + 4096)

struct map_record_line {
	uint64_t number;
	uint32_t check;
	bool failed;
};

/* Parses a line as written by map_record_format(), with its newline. -EBADMSG. */
int map_record_read_line(const char *line, size_t size, struct map_record_line *ret);

/* In map_record_load.c: reads a file's lines into the record. *ret_end: the end of its last whole line. */
int map_record_load(struct map_record *r, const struct map_file *f, uint64_t *ret_end, struct gd_error *err);

#endif
