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
#include "launch/workload.h"

/* How much there is, in a form that can be kept up to date: see launcher_eta.c. */
struct launch_amount {
	double seconds;       /* of files of which it is known */
	double seconds_bytes; /* their size */
	double bytes;         /* of the others */
};

/* A worker as on_progress sees it. */
struct launcher_worker {
	struct gd_launch_worker public;
	struct gd_worker_stats stats;
};

struct gd_launcher {
	struct gd_launch_options options; /* with the defaults filled in */
	struct gd_setting *settings;      /* of the options */
	struct gd_gpu_list *gpus;
	struct launch_worker worker;
	char fingerprint[HASH_TEXT];
	struct text worker_words;

	/* The plan. */
	bool planned;
	struct gd_files *files;
	struct history history;
	struct outputs outputs;
	struct gd_found **todo; /* of the files */
	const char **output_of; /* below the output folder */
	size_t num_todo;
	size_t num_skipped;
	struct gd_launch_pace earlier;

	/* The run. */
	bool has_run;
	bool begun; /* the balancer's numbers are those of this run */
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
	int pool_stops;      /* 1: no new file begins; 2: running ones are cancelled; 3: they are killed */
	int history_error;   /* that was reported */
	uint64_t unrecorded; /* results, at the end */
	struct launch_amount total, done;
	struct launcher_worker *worker_states;
	const struct gd_launch_worker **worker_list;
	size_t num_workers;
	uint64_t *last_end_ns; /* by slot: of its last file */
	uint64_t progress_at_ns;

	int stop_fd; /* an eventfd, readable after a stop */
	atomic_int stops;
};

/* Words for on_warning. */
void launcher_warn(struct gd_launcher *l, const char *format, ...) GD_PRINTF(2, 3);

/* ---- launcher_check.c ---- */

/* What the options give if they have no mistakes. */
struct launcher_inputs {
	struct gd_launch_options options; /* with `settings` */
	struct gd_setting *settings;
	struct gd_gpu_list *gpus;
};

void launcher_inputs_finish(struct launcher_inputs *in);

/* Calls `mistake` for each and returns their number. *ret is set if there is none. */
int launcher_check(const struct gd_launch_options *options, void (*mistake)(void *context, const struct gd_error *err),
	void *context, struct launcher_inputs *ret);
/* The worker of the options; false if there is none, or if it is hooks of this program. */
bool launcher_worker(const struct gd_launch_options *o, struct launch_worker *ret);
const char *launcher_output_dir(const struct gd_launch_options *o);

/* ---- launcher_plan.c ---- */

/* Files, history, what is to be done and where its output goes. A plan that was there before is dropped. */
int launcher_plan(struct gd_launcher *l, struct gd_error *err);
void launcher_drop_plan(struct gd_launcher *l);
void launcher_fingerprint(struct gd_launcher *l);

/* ---- launcher_results.c ---- */

void launcher_set_seconds(struct gd_launcher *l, size_t i, double seconds);
/* What is known of a file's duration at its end; `told`: what its worker reported, or -1. */
void launcher_learn_seconds(struct gd_launcher *l, size_t i, double told);
/* The end of a file; `e` is NULL if it never reached a worker, `error` if it succeeded. */
void launcher_put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error);
/* Ends it where there were too many. */
void launcher_check_failures(struct gd_launcher *l);
/* Says once that results cannot be recorded. */
void launcher_flush_history(struct gd_launcher *l);

/* ---- launcher_feed.c ---- */

void launcher_feed(struct gd_launcher *l);
void launcher_take_durations(struct gd_launcher *l);

/* ---- launcher_run.c ---- */

void launcher_stop_pool(struct gd_launcher *l, int stops);
/* No new file begins. */
bool launcher_is_ending(const struct gd_launcher *l);

/* ---- launcher_eta.c ---- */

void launch_amount_add(struct launch_amount *a, const struct gd_found *file);
void launch_amount_remove(struct launch_amount *a, const struct gd_found *file);
/* Tells on_progress, if it is time. */
void launcher_progress(struct gd_launcher *l, bool last);

#endif
