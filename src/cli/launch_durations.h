/* SPDX-License-Identifier: MIT */
/*
 * How long audio files are, read in a process of its own.
 *
 * Files come from anywhere, and decoders have bugs: libsndfile never runs in the launcher. This program is executed
 * once more, reads paths and answers durations, one after the other. If it crashes or hangs over a file, that file's
 * duration is unknown, and the next one is read by a new process. What libraries print there goes nowhere.
 */
#ifndef CLI_LAUNCH_DURATIONS_H
#define CLI_LAUNCH_DURATIONS_H

/* The only argument with which this program becomes the reading process. */
#define LAUNCH_DURATIONS_ARGUMENT "--read-durations"

/* A gd_seconds_reader, for several threads; they wait for each other. -EIO: the process ended over this file. */
int launch_durations_read(void *context, const char *path, double *ret);

/* Ends the process, if there is one. No thread may be reading. */
void launch_durations_end(void);

/* The reading process. Returns its exit code. */
int launch_durations_main(void);

#endif
