/* SPDX-License-Identifier: MIT */
/*
 * gpuq map: processes the items of a file with persistent programs, one per GPU.
 *
 *     map_create() → map_run() → map_destroy()
 *
 * Items are collected in messages of up to `batch` items; each program has up to `in_flight` messages at a time. The
 * output is the record of finished items: the same call continues an interrupted run. Every item ends as one line of
 * the output, or is left for the next run.
 *
 * Single-threaded; map_stop() may also be called by signal handlers.
 */
#ifndef LAUNCH_MAP_H
#define LAUNCH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

#define MAP_MOST_FAILURES 20 /* listed in a summary */

struct map_failure {
	uint64_t number;
	char *reason;
};

struct map_gpu {
	int gpu;
	uint64_t items;
	uint64_t failed;
	uint64_t messages;
	double items_per_second; /* since the first worker was ready */
};

struct map_summary {
	uint64_t total; /* items of the input read so far; see total_known */
	bool total_known;
	uint64_t done, failed;  /* by this run, and written */
	uint64_t skipped;       /* in the output before this run: done or failed */
	uint64_t failed_before; /* of the skipped items */
	uint64_t tried_again;   /* failed before; their lines were removed from the output */
	uint64_t left;          /* read, but not in the output */
	uint64_t messages, retries, restarts;
	size_t batch; /* items per message now: lower after an out-of-memory answer */
	uint64_t input_bytes, done_bytes;
	double wall_seconds;
	double items_per_second; /* since the first worker was ready */
	const struct map_failure *failures;
	size_t num_failures;
	const struct map_gpu *gpus;
	size_t num_gpus;
};

struct map_progress {
	const struct map_summary *summary;
	const struct gd_worker_stats *workers;
	size_t num_workers;
	bool ending, cancelling;
	uint64_t running; /* items in the messages being processed */
};

struct map_options {
	const char *input, *output; /* "-": standard input and output */
	const char *errors;         /* a file for failures, or NULL */
	bool lines;                 /* items are lines of text */
	bool ordered;
	bool trust; /* use files that others can write */
	size_t batch, in_flight;
	const char *const *program; /* NULL at the end */
	const char *gpus;
	int workers_per_gpu;
	const struct gd_setting *settings;
	size_t num_settings;
	int64_t timeout_ms; /* for a message; 0: none */
	int retries;
	uint64_t max_failures; /* 0: no limit */
	void *context;
	void (*on_start)(void *context, const struct map_summary *summary); /* before the workers start */
	void (*on_progress)(void *context, const struct map_progress *progress);
	void (*on_failure)(void *context, uint64_t number, const char *reason);
	void (*on_warning)(void *context, const char *words);
};

struct map;

/* Checks GPUs and program, opens the input. Strings of the options must stay valid. Nothing is written. */
int map_create(const struct map_options *options, struct map **ret, struct gd_error *err);
/*
 * Opens the output and runs. 0: every item has ended; -ECANCELED: stopped before that; -EDQUOT: too many failures;
 * -ECHILD: no worker is left; -ENODATA: the input became shorter; -EPERM, -EBADMSG, -EBUSY…: a file cannot be used.
 * Call it only once.
 */
int map_run(struct map *m, struct gd_error *err);
/* Lets running messages finish; the second call cancels them, the third kills the workers. */
void map_stop(struct map *m);
void map_get_summary(struct map *m, struct map_summary *ret);
void map_destroy(struct map *m);

#endif
