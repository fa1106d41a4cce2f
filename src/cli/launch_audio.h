/* SPDX-License-Identifier: MIT */
/* How long audio files are, as libsndfile tells it. */
#ifndef CLI_LAUNCH_AUDIO_H
#define CLI_LAUNCH_AUDIO_H

/* A gd_seconds_reader: seconds, or -1 where it is no audio file that it knows. */
double launch_audio_seconds(void *context, const char *path);

#endif
