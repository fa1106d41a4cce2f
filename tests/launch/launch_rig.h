/* SPDX-License-Identifier: MIT */
/*
 * A launch in the test's own folder, with hooks of the test program as workers:
 * input files below "in", results below "out". The second letter of a file's name tells the worker what to do; the
 * first letter identifies the file when the order is checked.
 */
#ifndef TESTS_LAUNCH_LAUNCH_RIG_H
#define TESTS_LAUNCH_LAUNCH_RIG_H

#include <stddef.h>

#include "gpu_dispatch_launch.h"
#include "support/board.h"
#include "support/scratch.h"

/* cmocka's setup and teardown: a folder and a new board. */
int launch_rig_enter(void **state);
#define launch_rig_test(test) cmocka_unit_test_setup_teardown(test, launch_rig_enter, scratch_leave)

/*
 * The worker. Files begin with a letter; then f: fails, k: is killed, o: is killed in its
 * first attempt, w: waits for board->go or its cancellation, h: hangs, s: has 7 seconds.
 * board->begun counts the files that were begun.
 */
extern const struct gd_worker_ops launch_rig_worker;
/* A worker whose setup fails with "no model in this test". */
extern const struct gd_worker_ops launch_rig_broken_worker;

/* From "in" to "out" on two simulated GPUs. */
struct gd_launch_options launch_rig_options(void);

/* Files in/<letter><rest>.wav for all letters from first to last. */
void launch_rig_put(char first, char last, const char *rest, size_t size_bytes);

struct launch_counts {
	int done, failed, skipped, left;
};

void launch_rig_assert_counts(const struct gd_launch_summary *s, struct launch_counts expected);

/* gd_launch(), which must return `expected`. */
struct gd_launch_summary *launch_rig_launch(const struct gd_launch_options *o, int expected);

/* The same, but returns only the counts. */
void launch_rig_run(const struct gd_launch_options *o, int expected, struct launch_counts counts);

/* The same, but must succeed, and returns nothing. */
void launch_rig_run_well(const struct gd_launch_options *o);

/* A gd_launch_options.seconds: 100 for files whose name begins with d, 1 for all others. */
int launch_rig_seconds(void *context, const char *path, double *ret);

/* How many times files with this first letter were begun. */
int launch_rig_begun(char letter);

/* Checks the first letters of the files in the order in which they were begun, starting with the `from`th. */
void launch_rig_assert_order(size_t from, const char *letters);

#endif
