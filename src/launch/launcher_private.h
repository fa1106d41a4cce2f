/* SPDX-License-Identifier: MIT */
/*
 * The launcher from inside: launcher.c, and what it hands on to launcher_check.c
 * (mistakes), launcher_plan.c (what is to be done), launcher_run.c (doing it, with
 * launcher_feed.c, launcher_order.c and launcher_results.c), launcher_watch.c (files that
 * come during the run) and launcher_eta.c (how far it is).
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
#include "launch/history_writer.h"
#include "launch/launch_queue.h"
#include "launch/outputs.h"
#include "launch/worker.h"
#include "launch/worker_note.h"
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
	char *plugin;              /* of the options */
	struct gd_error no_worker; /* of gd_launcher_run(); code 0: there is one */
	struct launch_worker worker;
	char fingerprint[HASH_TEXT];
	struct text worker_words;

	/* The plan. */
	bool planned;
	struct gd_files *files;
	struct history history; /* when the plan was made */
	struct outputs outputs;
	struct gd_found **todo; /* of the files */
	const char **output_of; /* below the output folder */
	size_t todo_capacity, output_capacity;
	size_t num_todo;
	size_t num_skipped;
	struct gd_launch_pace earlier;

	/* The run. */
	bool has_run;
	bool begun; /* the balancer's numbers are those of this run */
	char reason[512];
	struct history_writer writer;
	char *output_root;       /* absolute */
	int input_fd, output_fd; /* the two folders; -1 */
	bool input_replaceable;  /* other users can put another folder in the place of the input folder */
	struct gd_balancer *balancer;
	struct gd_pool *pool;
	struct durations *durations; /* of the files durations_first…durations_end-1 */
	size_t durations_first, durations_end;
	size_t durations_sorted; /* asked for when the queue was sorted last */
	size_t durations_taken;
	size_t dealt; /* files that were dealt out in turn */
	struct launch_queue queue;
	struct launch_watch *watch; /* NULL: the folder is not watched */
	size_t *submitted;          /* numbers by the pool's id */
	size_t num_submitted, submitted_capacity;
	bool enough; /* failures */
	bool no_worker_left;
	int stops_done;
	int pool_stops;      /* 1: no new file begins; 2: running ones are cancelled; 3: they are killed */
	int history_error;   /* that was reported */
	uint64_t unrecorded; /* results, at the end */
	struct launch_amount total, done;
	struct launcher_worker *worker_states;
	const struct gd_launch_worker **worker_list;
	size_t num_workers;
	uint64_t *last_end_ns;  /* by slot: of its last file */
	uint64_t *reloading_ns; /* by slot: its program was started again while it had the file that is to end next */
	uint64_t reloaded_ns;   /* all of that */
	unsigned worker_notes;  /* warnings of workers so far */
	uint64_t progress_at_ns;
	uint64_t idle_since_ns; /* 0: there is work */
	uint64_t idle_ns;       /* before that */

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
	char *plugin;              /* the path of the plug-in, or NULL */
	struct gd_error no_worker; /* code 0, or why there is none though none was given */
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
/* Same file, same worker and settings, and what it wrote is still there. root: the output folder. */
bool launcher_is_done(const struct gd_launcher *l, int root, const struct gd_found *f, const struct history_entry *e);
/* e: what the history says of the file, or NULL. */
int launcher_choose_output(
	struct gd_launcher *l, const struct gd_found *f, const struct history_entry *e, size_t number);

/* ---- launcher_results.c ---- */

void launcher_set_seconds(struct gd_launcher *l, size_t i, double seconds);
/* What is known of a file's duration at its end; `told`: what its worker reported, or -1. */
void launcher_learn_seconds(struct gd_launcher *l, size_t i, double told);
/* The end of a file; `e` is NULL if it never reached a worker, `error` if it succeeded. */
void launcher_put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error);
/* Ends it where there were too many. */
void launcher_check_failures(struct gd_launcher *l);
/* What a worker's process says besides answers. */
void launcher_take_note(struct gd_launcher *l, const struct gd_event *e, const struct worker_note *note);
/* Says once that results cannot be recorded. */
void launcher_flush_history(struct gd_launcher *l);

/* ---- launcher_feed.c ---- */

void launcher_feed(struct gd_launcher *l);
void launcher_take_durations(struct gd_launcher *l);

/* ---- launcher_run.c ---- */

void launcher_stop_pool(struct gd_launcher *l, int stops);
/* No new file begins. */
bool launcher_is_ending(const struct gd_launcher *l);
/* No file waits or is with a worker. */
bool launcher_has_no_work(const struct gd_launcher *l);

/* ---- launcher_order.c ---- */

/* Puts these files (their numbers) into the queue, as balance or strategy say. */
int launcher_queue_files(struct gd_launcher *l, const size_t *numbers, size_t count);
/* Sorts again what waits for any GPU. */
int launcher_sort_rest(struct gd_launcher *l);

/* ---- launcher_watch.c ---- */

/* Watches the folder from here on; l->todo has what was found before. */
int launcher_watch_open(struct gd_launcher *l);
void launcher_watch_close(struct gd_launcher *l);
/* New files into the queue. */
void launcher_watch_turn(struct gd_launcher *l);
/* Readable when there may be new files; -1: there is no such descriptor. */
int launcher_watch_fd(const struct gd_launcher *l);
/*
 * The turn of file i has come, but it is missing (-ENOENT) or still being written (-EBUSY): then true, and the file
 * waits or is forgotten. False: it has failed.
 */
bool launcher_watch_defer(struct gd_launcher *l, size_t i, int error);
/* The file is with a worker; its result is there. */
void launcher_watch_begun(struct gd_launcher *l, size_t i);
void launcher_watch_ended(struct gd_launcher *l, size_t i);

/* ---- launcher_eta.c ---- */

void launch_amount_add(struct launch_amount *a, const struct gd_found *file);
void launch_amount_remove(struct launch_amount *a, const struct gd_found *file);
/* Looks at the workers: what they do, and how long they have loaded their models. */
void launcher_look_at_workers(struct gd_launcher *l);
/* Tells on_progress, if it is time. */
void launcher_progress(struct gd_launcher *l, bool last);

/* ---- launcher_run.c ---- */

/*
 * Results are taken, free workers get files, progress is reported: what cannot wait while a large folder is searched.
 * Returns how many results there were, or a negative value.
 */
int launcher_serve(struct gd_launcher *l);

#endif
