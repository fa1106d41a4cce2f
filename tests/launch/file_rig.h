/* SPDX-License-Identifier: MIT */
/*
 * A file worker in a pool: the test's folder, files created and submitted in it, and how each of them ended.
 */
#ifndef TESTS_LAUNCH_FILE_RIG_H
#define TESTS_LAUNCH_FILE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/worker.h"
#include "launch/worker_note.h"
#include "support/callbacks.h"
#include "support/check.h"
#include "support/scratch.h"
#include "support/wait.h"

#define FILE_RIG_WAIT_MS (3 * WAIT_MS) /* shells execute several programs per file */

struct file_end {
	enum gd_failure failure;
	int code;
	bool timed_out;
	double seconds;
	char message[1024];
};

struct file_rig {
	char dir[SCRATCH_PATH_SIZE];
	struct callbacks callbacks;
	struct launch_worker worker;
	char **argv;               /* of gpuq-worker */
	struct gd_options options; /* sim:1 */
	struct gd_callbacks calls;
	struct gd_pool *pool;
	size_t submitted;
	size_t ended;
	struct file_end ends[256]; /* in the order of submission */
	size_t setup_failures;
	char setup_message[1024];
	struct worker_note note; /* the last one */
};

/* cmocka's setup and teardown; *state is the rig. */
int file_rig_setup(void **state);
int file_rig_teardown(void **state);
#define file_rig_test(test) cmocka_unit_test_setup_teardown(test, file_rig_setup, file_rig_teardown)

/* launch_worker_check() and gd_pool_open(). */
void file_rig_open(struct file_rig *rig);
/* Creates and submits a file of that name in the folder; "seconds" of audio, -1: unknown. */
void file_rig_submit(struct file_rig *rig, const char *name, double seconds);
/* Polls until `count` files have ended, or no worker is left. */
void file_rig_await(struct file_rig *rig, size_t count);
void file_rig_await_setup_failure(struct file_rig *rig);
void file_rig_close(struct file_rig *rig);
/* One file, from opening to closing. */
const struct file_end *file_rig_run_one(struct file_rig *rig, const char *name);

/* A file in the folder: its path (until the next call), its text ("" if it does not exist; until the next call). */
const char *file_rig_path(const struct file_rig *rig, const char *name);
const char *file_rig_read(const struct file_rig *rig, const char *name);
void file_rig_write(const struct file_rig *rig, const char *name, const char *text);
/* Polls until the file exists and has a line; returns the line as a number. */
long file_rig_await_number(struct file_rig *rig, const char *name);

/* Whether the process ends in time; a zombie has ended. PID 0 means that it ended before it could report its PID. */
bool file_rig_gone(pid_t pid);
/* The same for the process whose PID is in a file. */
bool file_rig_named_gone(const struct file_rig *rig, const char *name);

#endif
