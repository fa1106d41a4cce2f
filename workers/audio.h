/* SPDX-License-Identifier: MIT */
/* Reads any recording in the format of the recognizers: 16 kHz, one channel, block by block. */
#ifndef WORKERS_AUDIO_H
#define WORKERS_AUDIO_H

#include <stddef.h>

#define AUDIO_RATE 16000

struct audio;

/* On failure, `words` is the reason, for the file's failure. */
int audio_open(const char *path, struct audio **ret, char *words, size_t room);
void audio_close(struct audio *a);

/* Seconds of the recording. */
double audio_seconds(const struct audio *a);

/* The next block; returns its number of samples, 0 at the end, or a negative errno value. Valid until the next call. */
long audio_read(struct audio *a, const float **ret);

#endif
