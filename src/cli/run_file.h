/* SPDX-License-Identifier: MIT */
/*
 * Publishes the progress of a gpuq launch or gpuq map for gpuq top, gpuq web and its metrics.
 *
 * Each run has two files in the directory `runs` of the user's state directory for this host (base/state_dir.h):
 * PID.lock, which it keeps locked while it runs, and PID.json, which it replaces by rename a few times a second at
 * most. A reader removes the files of a run whose lock is free. Ended runs stay in the history
 * (cli/run_history.h).
 */
#ifndef CLI_RUN_FILE_H
#define CLI_RUN_FILE_H

#include "base/text.h"
#include "view/model/model.h"

/* The files of one run. */
struct run_file {
	int dir_fd, lock_fd; /* -1: the run cannot be published */
	int64_t start_ms;
	uint64_t next_ns;   /* time of the next write */
	struct text last;   /* the last text written */
	const char *kind;   /* kind of the run: see struct view_run */
	const char *name;   /* a path, any bytes */
	const char *worker; /* any bytes, or NULL */
};

#define RUN_FILE_NONE ((struct run_file){.dir_fd = -1, .lock_fd = -1})

/*
 * kind, name and worker are borrowed. Without a state directory, or if a run with the same PID in another container
 * holds the files, the run is not published, without an error.
 */
void run_file_open(struct run_file *f, const char *kind, const char *name, const char *worker);
/* Whether run_file_put() would write now. */
bool run_file_is_due(const struct run_file *f);
/* Publishes; sets pid, kind, name, worker and start_ms. Tasks may contain any bytes. */
void run_file_put(struct run_file *f, const struct view_run *run);
/* Removes the files. The last published state is added to the history, with the current time as its end. */
void run_file_close(struct run_file *f);

/* Loads all runs of this user on this host into the model. 0, or a negative errno value, and the model is unchanged. */
int run_files_load(struct view_model *m);

/* ---- The text of PID.json; for the tests ------------------------------------------ */

void run_file_format(struct text *t, const struct view_run *run);

#define RUN_FILE_GPUS 64 /* more are not shown */

/* A run that was read, with the memory that it points to. */
struct run_text {
	struct view_run run;
	struct view_run_gpu gpus[RUN_FILE_GPUS];
	char *strings;
};

/* -EBADMSG, -ENOMEM. */
int run_file_parse(const char *data, size_t size, struct run_text *ret);
void run_text_finish(struct run_text *r);

#endif
