/* SPDX-License-Identifier: MIT */
/*
 * Records every callback of a run, or of a pool that the test opens with the
 * recorder's options: a generator of numbered tasks, and one note per callback.
 *
 * For tests that check single callbacks: their fields, their number, their order. For tests that kill and starve
 * workers and check only that each task has one end, use pool_rig.h, which keeps no notes and works in hosts.
 *
 * Nothing is asserted inside a callback: a longjmp out of gd_dispatcher_run() would leave its workers behind.
 */
#ifndef TESTS_POOL_RECORDER_H
#define TESTS_POOL_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "support/callbacks.h"
#include "support/check.h"

#define RECORDER_WORDS 256

/* One callback. */
struct run_note {
	enum callback_kind kind;
	struct gd_event event; /* task, result: only the sizes */
	uint64_t task;         /* the task's first eight bytes, and the result's */
	uint64_t result;
	char message[RECORDER_WORDS];
};

struct recorder {
	struct callbacks callbacks;
	struct gd_options options;
	struct gd_callbacks calls;
	struct gd_run run;
	struct gd_dispatcher *dispatcher;
	struct gd_stats stats;
	struct gd_error err;

	struct run_note *notes;
	size_t num_notes;
	size_t capacity;
	size_t count[CALLBACK_KINDS];
	size_t progress;
	struct gd_stats last_progress;
	struct gd_stats exit_stats;

	uint64_t tasks;         /* number that the generator yields */
	_Atomic uint64_t given; /* so far; on the feeder's thread */
	/* The test's part of the callbacks; its result is returned. */
	int (*on_note)(struct recorder *rec, const struct run_note *note, const struct gd_event *event);
	void (*on_give)(struct recorder *rec); /* in the generator, before each task */
	void *extra;
	bool paced; /* recorder_run_until() multiplies the limits of tasks and setups by the pace, which grows */
	int pace;   /* multiply the test's own waits by it, too */
};

/* cmocka's setup and teardown; *state is the recorder: two simulated GPUs, every callback, ten tasks, a new board. */
int recorder_setup(void **state);
int recorder_teardown(void **state);
#define recorder_test(test) cmocka_unit_test_setup_teardown(test, recorder_setup, recorder_teardown)

/* gd_dispatcher_create() and gd_dispatcher_run(); the dispatcher is kept so that the test can query it. */
int recorder_run(struct recorder *rec, const struct gd_worker_ops *ops);

/*
 * Runs, each time with a new board, until a run was undisturbed; fails after RECORDER_TRIES. For short time limits:
 * a machine that stalls for a moment can exceed them in some runs, a defect does so in every run.
 */
#define RECORDER_TRIES 20
void recorder_run_until(struct recorder *rec, const struct gd_worker_ops *ops,
	bool (*undisturbed)(const struct recorder *rec, int result));

/* A condition for recorder_run_until(): the run returned 0, and every task succeeded. */
bool recorder_all_succeeded(const struct recorder *rec, int result);

/* gd_pool_open(), for tests of a pool. */
struct gd_pool *recorder_open(struct recorder *rec, const struct gd_worker_ops *ops);

/* Polls until no task is outstanding. Each poll waits for a callback and must get one. */
void recorder_drain(struct gd_pool *pool);

/* Clears the notes and restarts the generator, before the next run. */
void recorder_restart(struct recorder *rec);

/* The i-th note of a kind, or NULL. */
const struct run_note *recorder_note(const struct recorder *rec, enum callback_kind kind, size_t i);

/* Checks that each task had exactly one end, and that on_exit was the last callback. */
void recorder_assert_complete(const struct recorder *rec);

/* The test's own directory; recorder_teardown() removes it with its contents. */
const char *recorder_dir(void);

/* Hooks. Answers with the bytes of the task. */
int recorder_echo(struct gd_worker *w, void *state, const struct gd_bytes *task);
/* A setup that fails with -ENOENT, "no model". */
int recorder_no_setup(struct gd_worker *w, void **ret_state);
uint64_t recorder_number(const struct gd_bytes *bytes);

#endif
