/* SPDX-License-Identifier: MIT */
/* How long audio files are, as libsndfile tells it. */
#ifndef CLI_LAUNCH_AUDIO_H
#define CLI_LAUNCH_AUDIO_H

/* A gd_seconds_reader; -ENODATA: not an audio file that libsndfile knows. */
int launch_audio_seconds(void *context, const char *path, double *ret);

#endif
