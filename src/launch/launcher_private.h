/* SPDX-License-Identifier: MIT */
/*
 * The launcher from inside: launcher.c, and what it hands on to launcher_check.c
 * (mistakes), launcher_plan.c (what is to be done), launcher_run.c (doing it, with
 * launcher_feed.c and launcher_results.c) and launcher_eta.c (how far it is).
 *
 * Files to do have a number, their place in `todo`; everything else about them
 * stands in lists of the same length.
 */
#ifndef LAUNCH_LAUNCHER_PRIVATE_H
#define LAUNCH_LAUNCHER_PRIVATE_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "launch/durations.h"
#include "launch/history.h"
#include "launch/outputs.h"
#include "launch/worker.h"

/* How much there is, in a form that can be kept up to date: see launcher_eta.c. */
struct launch_amount {
	double seconds;       /* of files of which it is known */
	double seconds_bytes; /* their size */
	double bytes;         /* of the others */
};

struct gd_launcher {
	struct gd_launch_options options; /* with the defaults filled in */
	struct gd_gpu_list *gpus;
	struct launch_worker worker;
	char fingerprint[HASH_TEXT];
	struct text worker_words;

	/* The plan. */
	bool planned;
	struct gd_files *files;
	struct history history;
	struct outputs outputs;
	struct gd_found *todo;
	const char **output_of; /* below the output folder */
	size_t num_todo;
	size_t num_skipped;
	double earlier_rtf, earlier_bytes_per_second; /* 0: no earlier run */

	/* The run. */
	bool has_run;
	int result; /* so far: 0 or 1 */
	char reason[512];
	char *output_root;       /* absolute */
	int input_fd, output_fd; /* the two folders; -1 */
	struct gd_balancer *balancer;
	struct gd_pool *pool;
	struct durations *durations;
	size_t durations_sorted; /* asked for when the queue was sorted last */
	size_t durations_taken;
	size_t *order;
	size_t next;       /* in order */
	size_t *submitted; /* numbers by the pool's id */
	size_t num_submitted;
	bool enough; /* failures */
	bool no_worker;
	int stops_done;
	int pool_stops;    /* one: nothing new begins; two: what has begun is ended */
	int history_error; /* that was said */
	struct launch_amount total, done;
	struct gd_launch_worker *worker_states;
	size_t num_workers;
	uint64_t progress_at_ns;

	int stop_fd; /* an eventfd, readable after a stop */
	atomic_int stops;
};

/* Words for on_warning. */
void launcher_warn(struct gd_launcher *l, const char *format, ...) GD_PRINTF(2, 3);

/* ---- launcher_check.c ---- */

/* Every mistake, and the GPUs in *ret where there was none. */
int launcher_check(const struct gd_launch_options *o, void (*mistake)(void *context, const struct gd_error *err),
	void *context, struct gd_gpu_list **ret);
/* The worker as it was given; false where there is none, or hooks of this program. */
bool launcher_worker(const struct gd_launch_options *o, struct launch_worker *ret);
const char *launcher_output_dir(const struct gd_launch_options *o);

/* ---- launcher_plan.c ---- */

/* Files, history, what is to be done and where its output goes. A plan that was there before is dropped. */
int launcher_plan(struct gd_launcher *l, struct gd_error *err);
void launcher_drop_plan(struct gd_launcher *l);
void launcher_fingerprint(struct gd_launcher *l);

/* ---- launcher_results.c ---- */

void launcher_set_seconds(struct gd_launcher *l, size_t i, double seconds);
/* What is known of a file's duration at its end; `told`: by its worker, or -1. */
void launcher_learn_seconds(struct gd_launcher *l, size_t i, double told);
/* The end of a file; `e` is NULL where it came to no worker, `error` where all is well. */
void launcher_put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error);
/* Ends it where there were too many. */
void launcher_check_failures(struct gd_launcher *l);
/* Says once that results cannot be recorded. */
void launcher_flush_history(struct gd_launcher *l);

/* ---- launcher_feed.c ---- */

void launcher_feed(struct gd_launcher *l);
void launcher_take_durations(struct gd_launcher *l);

/* ---- launcher_run.c ---- */

/* No new file begins. */
bool launcher_is_ending(const struct gd_launcher *l);

/* ---- launcher_eta.c ---- */

void launch_amount_add(struct launch_amount *a, const struct gd_found *file);
void launch_amount_remove(struct launch_amount *a, const struct gd_found *file);
/* Tells on_progress, if it is time. */
void launcher_progress(struct gd_launcher *l, bool last);

#endif
