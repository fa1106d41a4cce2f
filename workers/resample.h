/* SPDX-License-Identifier: MIT */
/*
 * Another sample rate, block by block: a polyphase filter, a windowed sinc that
 * cuts off below half of the lower of the two rates.
 */
#ifndef WORKERS_RESAMPLE_H
#define WORKERS_RESAMPLE_H

#include <stddef.h>

struct resampler;

/* Rates in Hz. -EINVAL for what no recording has. */
int resampler_create(unsigned from, unsigned to, struct resampler **ret);
void resampler_destroy(struct resampler *r);

/* How many samples may come of `count` more, at most. */
size_t resampler_room(const struct resampler *r, size_t count);
/* Takes `count` samples, and gives what can be told by now; returns how many. */
size_t resampler_put(struct resampler *r, const float *samples, size_t count, float *ret);
/* What is still to come at the end; resampler_room(r, 0) at most. */
size_t resampler_finish(struct resampler *r, float *ret);

#endif
