/* SPDX-License-Identifier: MIT */
/*
 * Internals of the launcher: launcher.c, launcher_check.c (mistakes in the options), launcher_plan.c (which files to
 * process), launcher_output.c (the output folder), launcher_run.c (the run, with launcher_feed.c, launcher_order.c,
 * launcher_durations.c and launcher_results.c), launcher_watch.c (files that arrive during the run), launcher_remote.c
 * (workers on other machines) and launcher_eta.c (progress and ETA).
 *
 * Files to process have a number, their index in `todo`; other lists about them have the same length.
 */
#ifndef LAUNCH_LAUNCHER_PRIVATE_H
#define LAUNCH_LAUNCHER_PRIVATE_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/trust.h"
#include "launch/durations.h"
#include "launch/history_writer.h"
#include "launch/launch_queue.h"
#include "launch/outputs.h"
#include "launch/remote.h"
#include "launch/remote_note.h"
#include "launch/worker.h"
#include "launch/worker_note.h"
#include "launch/workload.h"

/* An amount of work, in a form that can be updated file by file: see launcher_eta.c. */
struct launch_amount {
	double seconds;       /* of files whose duration is known */
	double seconds_bytes; /* their size */
	double bytes;         /* of the other files */
};

/* A file that has ended before its duration is known. */
struct launcher_early {
	bool ended;
	bool done; /* without an error */
	double processing_seconds;
	struct gd_launch_gpu *gpu; /* of the balancer, or NULL */
};

/* A worker as on_progress sees it. */
struct launcher_worker {
	struct gd_launch_worker public;
	struct gd_worker_stats stats;
};

/* The worker of a slot on another machine, according to its notes. */
struct remote_slot {
	char node[REMOTE_NODE_ROOM]; /* "": none yet */
	int gpu;
	int tries;              /* attempts at its last file */
	uint64_t processing_ns; /* of that file */
	uint64_t put_back;      /* the pool's id of a task that goes back to the queue; GD_NO_TASK: none */
};

/* The folder of a file's result. */
struct launcher_output {
	const char *folder; /* below the output folder */
	uid_t owner;        /* of the file, see find_owner() */
	bool is_own; /* the folder belongs to this file, according to the history or because this run has used it */
	uint64_t size_bytes; /* if is_own: of the file when the folder was used last */
	int64_t mtime_ns;
};

/* How often to examine whether other users can write a folder above the input or output folder. */
#define LAUNCHER_LOOK_NS (NS_PER_S / 4)

struct gd_launcher {
	struct gd_launch_options options; /* with the defaults filled in */
	struct gd_setting *settings;      /* of the options */
	struct gd_gpu_list *gpus;
	char *plugin;              /* of the options: the path of the plug-in, or NULL */
	struct gd_error no_worker; /* the error of gd_launcher_run() if there is no worker; code 0: there is one */
	struct launch_worker worker;
	char fingerprint[HASH_TEXT];
	struct text worker_words;
	char *input_name; /* see launcher_input_name(), or NULL */

	/* The plan. */
	bool planned;
	struct gd_files *files;
	struct history history; /* as it was when the plan was made */
	struct outputs outputs;
	struct gd_found **todo;            /* of the files */
	struct launcher_output *output_of; /* by file */
	size_t todo_capacity, output_capacity;
	size_t num_todo;
	size_t num_skipped;
	uint64_t inputs_skipped; /* by the last search, and entries skipped since then */
	struct gd_launch_pace earlier;
	struct trust_way input_way; /* `replaceable`: see find_is_open_to_others() */

	/* The run. */
	bool has_run;
	bool begun; /* the balancer's numbers belong to this run */
	char reason[512];
	struct history_writer writer;
	char *output_root;        /* absolute, of output_fd */
	int input_fd, output_fd;  /* the two folders; -1: not open. The plan opens the output folder. */
	bool input_replaceable;   /* other users can replace the input folder */
	uint64_t input_looked_ns; /* when this was examined last */
	bool output_replaceable;  /* the same for the output folder */
	uint64_t output_looked_ns;
	bool warned_of_readers; /* of the output folder */
	bool made_output;       /* this launch has created the output folder */
	bool output_closed;     /* … and has made it private, after others could read it */
	struct gd_balancer *balancer;
	struct gd_pool *pool;
	const struct launch_remote *remote; /* NULL: the workers are on this machine */
	struct launch_remote_workers remote_workers;
	struct remote_slot *remote_slots; /* by slot */
	int *remote_numbers;              /* 0, 1, 2…: in place of numbers of GPUs */
	unsigned char *put_backs;         /* by file: how often it was put back; stops counting at a limit */
	struct durations *durations;      /* of the files durations_first…durations_end-1 */
	size_t durations_first, durations_end;
	size_t durations_sorted; /* number of durations read when the queue was last sorted */
	size_t durations_taken;
	struct launcher_early *early; /* by file */
	size_t num_early, early_capacity;
	size_t early_waiting; /* files that have ended and whose duration may still be read */
	size_t dealt;         /* files that were dealt out in turn */
	struct launch_queue queue;
	bool feeding;               /* more files can be handed out at once */
	struct launch_watch *watch; /* NULL: the folder is not watched */
	size_t *submitted;          /* file numbers by the pool's task id */
	size_t num_submitted, submitted_capacity;
	bool enough; /* max_failures is reached */
	bool no_worker_left;
	int stops_done;
	int pool_stops;      /* 1: no new file is started; 2: running ones are cancelled; 3: they are killed */
	int history_error;   /* the last one reported */
	uint64_t unrecorded; /* results that could not be recorded, at the end */
	struct launch_amount total, done;
	struct launcher_worker *worker_states;
	const struct gd_launch_worker **worker_list;
	size_t num_workers;
	uint64_t *last_end_ns;  /* by slot: end of its last file */
	uint64_t *reloading_ns; /* by slot: time to restart its program during the file that ends next */
	uint64_t reloaded_ns;   /* sum of reloading_ns */
	unsigned worker_notes;  /* warnings of workers so far */
	uint64_t progress_at_ns;
	uint64_t idle_since_ns; /* 0: there is work */
	uint64_t idle_ns;       /* idle time before idle_since_ns */

	int stop_fd; /* an eventfd, readable after a stop */
	atomic_int stops;
};

/* Calls on_warning with a message. */
void launcher_warn(struct gd_launcher *l, const char *format, ...) GD_PRINTF(2, 3);

/* ---- launcher_check.c ---- */

/*
 * Reads the options into `l`, which is zero, with everything that is found out on the way: settings, GPUs and worker.
 * Calls `mistake` for each mistake and returns their number.
 */
int launcher_check(const struct gd_launch_options *options, void (*mistake)(void *context, const struct gd_error *err),
	void *context, struct gd_launcher *l);
/* Frees everything that launcher_check() stored, even after mistakes. */
void launcher_drop_options(struct gd_launcher *l);

/* ---- launcher_plan.c ---- */

/*
 * Makes the plan: files, history, files to process and their output folders. Drops any earlier plan. Uses only an
 * output folder that launcher_enter_output() has checked.
 */
int launcher_plan(struct gd_launcher *l, struct gd_error *err);
void launcher_drop_plan(struct gd_launcher *l);
void launcher_fingerprint(struct gd_launcher *l);
/*
 * The input folder for the record, and for the comparison with it. GPUQ_LAUNCH_INPUT names it if the files are links in
 * a temporary folder, which has another path in each run.
 */
const char *launcher_input_name(const struct gd_launcher *l);
/* Same file, same worker and settings, and its output still exists. */
bool launcher_is_done(const struct gd_launcher *l, const struct gd_found *f, const struct history_entry *e);
/*
 * What the history knows about the file, or NULL. If other users can change the content of the input folder, a file
 * of another owner with the same name is another file.
 */
const struct history_entry *launcher_find_entry(const struct gd_launcher *l, const char *path, uid_t owner);
/*
 * Chooses the folder for the result of l->todo[i], a file of this owner. A changed file of several users gets a new
 * one: it may be another file.
 */
int launcher_choose_output(struct gd_launcher *l, size_t i, uid_t owner);
/* Whether the folder may have the result of another file with this path: the owner does not tell them apart. */
bool launcher_has_folder_of_another(const struct gd_launcher *l, size_t i);
/* The other input folder from which the history has a result of file i, which must not be replaced; or NULL. */
const char *launcher_other_input(const struct gd_launcher *l, size_t i);

/* ---- launcher_output.c ---- */

/*
 * Opens the output folder, for everything that is read or written in it from then on, unless other users could have
 * filled it or can replace it. If the run of this launcher has already locked the folder, the open descriptor is
 * kept, and nothing is checked again. -ENOENT: the folder does not exist; err is not set.
 */
int launcher_enter_output(struct gd_launcher *l, struct gd_error *err);
/*
 * For the run: as launcher_enter_output(), but creates a missing folder: private if other users can change the
 * content of the input folder, so that they cannot read the results of private files. If it is not the folder of the
 * plan, there is no plan afterwards.
 */
int launcher_open_output(struct gd_launcher *l, struct gd_error *err);
/* Whether other users can change the content of the input folder, and the user does not trust them. */
bool launcher_is_open_to_others(const struct gd_launcher *l);
/* The owner that counts, for a result of find_owner(): in a folder that only this user can change, shared files count
 * as this user's own. */
uid_t launcher_owner(const struct gd_launcher *l, uid_t owner);
/* Notes whether other users can change which files a search finds, and how many entries it skipped. */
void launcher_note_search(struct gd_launcher *l, const struct gd_files *files);
/*
 * If other users can change the content of the input folder and read the results, makes the output folder private if
 * this launch has created it; otherwise warns, once.
 */
void launcher_warn_if_open(struct gd_launcher *l);
/*
 * The turn of file i has come, and it belongs to this owner. LAUNCHER_OTHER_OUTPUT: it gets another folder than
 * planned; begin again.
 */
#define LAUNCHER_OTHER_OUTPUT 1
int launcher_check_owner(struct gd_launcher *l, size_t i, uid_t owner);
/*
 * Makes the folder for the result of a file. Names of files that other users choose must not lead into other folders
 * of this user: then the folder must be new or empty, or belong to this file. LAUNCHER_OTHER_OUTPUT: l->output_of[i]
 * is another folder now, which has not been made; begin again. -EPERM: see outputs_make_result_folder().
 */
int launcher_make_result_folder(struct gd_launcher *l, size_t i, const char **ret_objection);

/* ---- launcher_results.c ---- */

/* A new entry for the history about file i, with its current size and time; the caller adds how the file ended. */
struct history_entry launcher_describe(const struct gd_launcher *l, size_t i);
/* The end of a file; `e` is NULL if it never reached a worker, `error` if it succeeded. */
void launcher_put_result(struct gd_launcher *l, size_t i, const struct gd_event *e, const char *error);
/* Ends the run if there were too many failures. */
void launcher_check_failures(struct gd_launcher *l);
/* A note of a worker's process, in addition to its answers. */
void launcher_take_note(struct gd_launcher *l, const struct gd_event *e, const struct worker_note *note);
/* Writes the results to the history; warns once if that fails. */
void launcher_flush_history(struct gd_launcher *l);

/* ---- launcher_feed.c ---- */

void launcher_feed(struct gd_launcher *l);

/* ---- launcher_durations.c ---- */

void launcher_set_seconds(struct gd_launcher *l, size_t i, double seconds);
/* Sets the duration of a file at its end, if it is known; `told`: the duration reported by its worker, or -1. */
void launcher_learn_seconds(struct gd_launcher *l, size_t i, double told);
/* The file has ended. If its duration is read later, it is added to the statistics. */
void launcher_note_early(struct gd_launcher *l, size_t i, const struct launcher_early *early);
/* Takes the durations that were read, and reads those of new files. Never waits. */
void launcher_take_durations(struct gd_launcher *l);
/* At the end of the run: waits a few seconds for durations of files that have ended. A stop ends the wait. */
void launcher_await_durations(struct gd_launcher *l);

/* ---- launcher_run.c ---- */

void launcher_stop_pool(struct gd_launcher *l, int stops);
/* Whether no new file may begin. */
bool launcher_is_ending(const struct gd_launcher *l);
/* Whether no file waits or is with a worker. */
bool launcher_has_no_work(const struct gd_launcher *l);

/* ---- launcher_remote.c ---- */

/* Starts the workers on other machines. Sets l->remote to NULL if there are none. */
int launcher_remote_start(struct gd_launcher *l, const char *log_dir, struct gd_error *err);
/* The options for the pool of their proxies. */
void launcher_remote_options(const struct gd_launcher *l, struct gd_options *ret);
/* True if the message is a note about a remote worker. */
bool launcher_remote_note(struct gd_launcher *l, const struct gd_event *e);
/* True if the file of a failed task is not processed anymore and was put back into the queue. */
bool launcher_remote_put_back(struct gd_launcher *l, const struct gd_event *e);
/* Sets the node and GPU of a result, or of a worker, if they are remote. */
void launcher_remote_place(const struct gd_launcher *l, const struct gd_event *e, struct history_place *place);
void launcher_remote_place_worker(const struct gd_launcher *l, size_t slot, struct gd_launch_worker *worker);

/* ---- launcher_order.c ---- */

/* Adds these files (by number) to the queue, according to balance or strategy. */
int launcher_queue_files(struct gd_launcher *l, const size_t *numbers, size_t count);
/* Sorts the files that wait for any GPU again. */
int launcher_sort_rest(struct gd_launcher *l);

/* ---- launcher_watch.c ---- */

/* Watches the folder from here on; l->todo has the files found before. */
int launcher_watch_open(struct gd_launcher *l);
void launcher_watch_close(struct gd_launcher *l);
/* Adds new files to the queue. */
void launcher_watch_turn(struct gd_launcher *l);
/* Readable when there may be new files; -1: no descriptor. */
int launcher_watch_fd(const struct gd_launcher *l);
/*
 * The turn of file i has come, but it is missing (-ENOENT) or still being written (-EBUSY). True: the file is dropped
 * or waits. False: it has failed.
 */
bool launcher_watch_defer(struct gd_launcher *l, size_t i, int error);
/* Whether file i, which waits in a line, must be ignored: a file with another number has replaced it. */
bool launcher_watch_has_dropped(const struct gd_launcher *l, size_t i);
/* The file has been submitted; its result has arrived. */
void launcher_watch_begun(struct gd_launcher *l, size_t i);
void launcher_watch_ended(struct gd_launcher *l, size_t i);

/* ---- launcher_eta.c ---- */

void launch_amount_add(struct launch_amount *a, const struct gd_found *file);
void launch_amount_remove(struct launch_amount *a, const struct gd_found *file);
/* Updates the states of the workers and their model loading times. */
void launcher_look_at_workers(struct gd_launcher *l);
/* Calls on_progress if it is due. */
void launcher_progress(struct gd_launcher *l, bool last);

/* ---- launcher_run.c ---- */

/*
 * Takes results, hands files to free workers and reports progress; also called during the search of a large folder.
 * Returns the number of results, or a negative value.
 */
int launcher_serve(struct gd_launcher *l);

#endif
