/* SPDX-License-Identifier: MIT */
/*
 * Converts the sample rate, block by block, with a polyphase filter: a windowed sinc that cuts off below half of the
 * lower rate.
 */
#ifndef WORKERS_RESAMPLE_H
#define WORKERS_RESAMPLE_H

#include <stddef.h>

struct resampler;

/* Rates in Hz. -EINVAL for unrealistic rates. */
int resampler_create(unsigned from, unsigned to, struct resampler **ret);
void resampler_destroy(struct resampler *r);

/* The most output samples for `count` more input samples. */
size_t resampler_room(const struct resampler *r, size_t count);
/* Takes `count` samples and writes all output that is ready; returns its number of samples. */
size_t resampler_put(struct resampler *r, const float *samples, size_t count, float *ret);
/* Writes the rest of the output at the end; at most resampler_room(r, 0) samples. */
size_t resampler_finish(struct resampler *r, float *ret);

#endif
