/* SPDX-License-Identifier: MIT */
/*
 * Frames as bytes: the content of a frame of a tunnel. Integers are little-endian and of fixed size, strings and arrays
 * have their length before them.
 *
 * Reading is strict: every member is there, nothing is left over, enumerators are known, and arrays are not longer
 * than the bytes that are there. What was read is written as the same bytes again.
 */
#ifndef SLURM_FRAME_CODEC_H
#define SLURM_FRAME_CODEC_H

#include <stddef.h>

#include "base/text.h"
#include "slurm/frame.h"

/* Appends the bytes; text_error() tells if memory ran out. */
void frame_encode(struct text *t, const struct frame *f);

/* Arrays of a decoded frame; start from {0}. Reused by the next frame, released by frame_arrays_finish(). */
struct frame_arrays {
	void *gpus, *attempts, *positions;
};
void frame_arrays_finish(struct frame_arrays *a);

/* 0, -EBADMSG or -ENOMEM. What ret points to belongs to `arrays`, or is part of data. */
int frame_decode(const void *data, size_t size, struct frame_arrays *arrays, struct frame *ret);

#endif
