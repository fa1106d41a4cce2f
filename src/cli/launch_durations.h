/* SPDX-License-Identifier: MIT */
/*
 * Durations of audio files, read in a separate process.
 *
 * Files may come from untrusted sources, and decoders have bugs: libsndfile never runs in the launcher. This program
 * is executed once more, reads paths and returns durations, one after the other. If it crashes or hangs on a file,
 * that file's duration is unknown, and a new process reads the next file. Reading has a limit of time and of CPU time
 * for each file; if several files exceed it, no more are read. Output of the reading process is discarded.
 */
#ifndef CLI_LAUNCH_DURATIONS_H
#define CLI_LAUNCH_DURATIONS_H

#include <stdbool.h>

/* With this as its only argument, this program becomes the reading process. */
#define LAUNCH_DURATIONS_ARGUMENT "--read-durations"

/*
 * A gd_seconds_reader. Threads wait for each other. -EIO: the process died while reading this file; -ETIMEDOUT;
 * -ECANCELED: no more durations are read.
 */
int launch_durations_read(void *context, const char *path, double *ret);

/* The call that is reading, and all later ones, return at once. For signal handlers. */
void launch_durations_cancel(void);

/* Whether no more durations are read because several files took too long. */
bool launch_durations_given_up(void);

/* Ends the process, if there is one. No thread may be reading. */
void launch_durations_end(void);

/* The reading process. Returns its exit code. */
int launch_durations_main(void);

#endif
