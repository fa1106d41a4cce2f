/* SPDX-License-Identifier: MIT */
/*
 * Durations of audio files, from libsndfile or else ffprobe. Only for the process of launch_durations.h.
 *
 * The library is loaded when the first file is read. If neither is installed, no duration is known.
 */
#ifndef CLI_LAUNCH_AUDIO_H
#define CLI_LAUNCH_AUDIO_H

/* A gd_seconds_reader; -ENODATA: not an audio file, or an unknown format; -ENOPKG: neither is installed. */
int launch_audio_seconds(void *context, const char *path, double *ret);

#endif
