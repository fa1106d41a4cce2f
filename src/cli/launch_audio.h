/* SPDX-License-Identifier: MIT */
/*
 * How long audio files are, as libsndfile tells it.
 *
 * The library is loaded when the first file is read. Where it is not installed, no duration is known.
 */
#ifndef CLI_LAUNCH_AUDIO_H
#define CLI_LAUNCH_AUDIO_H

/* A gd_seconds_reader; -ENODATA: not an audio file that libsndfile knows; -ENOPKG: libsndfile is not installed. */
int launch_audio_seconds(void *context, const char *path, double *ret);

#endif
