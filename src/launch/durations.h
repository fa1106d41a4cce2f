/* SPDX-License-Identifier: MIT */
/*
 * Reads how long files are, in a thread, while other files are being worked on.
 * Started only after the workers: a program with threads does not fork well.
 */
#ifndef LAUNCH_DURATIONS_H
#define LAUNCH_DURATIONS_H

#include "gpu_dispatch_launch.h"

struct durations;

/* `order`: in which the files are asked for. It and the list of files are copied; the files themselves and the folder
 * must outlive it. Only paths are read. */
int durations_start(const char *folder, const struct gd_found *const *files, const size_t *order, size_t count,
	gd_seconds_reader *reader, void *context, struct durations **ret);
/* Ends the thread, after the file that it is reading, and frees d. NULL is fine. */
void durations_stop(struct durations *d);

/* How many have been asked for so far. */
size_t durations_asked(const struct durations *d);
bool durations_is_over(const struct durations *d);
/* Which one was asked for as the k-th. */
size_t durations_file(const struct durations *d, size_t k);
/* Seconds of a file; -1: it cannot be told; -2: not asked for yet. */
double durations_get(const struct durations *d, size_t file);
/* Somebody else knows: it need not be asked for. */
void durations_known(struct durations *d, size_t file, double seconds);

#endif
