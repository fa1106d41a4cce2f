/* SPDX-License-Identifier: MIT */
/*
 * Reads the durations of files in a thread, while other files are being processed. Start it only after the workers:
 * forking a program with threads is unsafe.
 */
#ifndef LAUNCH_DURATIONS_H
#define LAUNCH_DURATIONS_H

#include "gpu_dispatch_launch.h"

struct durations;

/* `order`: the order in which durations are read. It and the list of files are copied; the files themselves and the
 * folder must outlive the reader. Only paths are read. */
int durations_start(const char *folder, const struct gd_found *const *files, const size_t *order, size_t count,
	gd_seconds_reader *reader, void *context, struct durations **ret);
/* Ends the thread after its current file, and frees d. NULL is allowed. */
void durations_stop(struct durations *d);

/* How many files have been read so far. */
size_t durations_asked(const struct durations *d);
bool durations_is_over(const struct durations *d);
/* The k-th file that was read, counted from 0. */
size_t durations_file(const struct durations *d, size_t k);
/* Seconds of a file; -1: unknown; -2: not read yet. */
double durations_get(const struct durations *d, size_t file);
/* Reports a duration that is already known, so that it is not read. */
void durations_known(struct durations *d, size_t file, double seconds);

#endif
