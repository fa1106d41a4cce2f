/* SPDX-License-Identifier: MIT */
/*
 * Frames as bytes: the content of a frame of a tunnel. Integers are little-endian and have a fixed size; strings and
 * arrays are preceded by their length.
 *
 * Decoding is strict: every member must be present, no bytes may be left over, enumerators must be known, and arrays
 * must fit in the frame. Encoding a decoded frame yields the same bytes.
 */
#ifndef SLURM_FRAME_CODEC_H
#define SLURM_FRAME_CODEC_H

#include <stddef.h>

#include "base/text.h"
#include "slurm/frame.h"

/* Appends the bytes; text_error() reports whether memory ran out. */
void frame_encode(struct text *t, const struct frame *f);

/* Arrays of a decoded frame; start from {0}. Reused by the next frame, released by frame_arrays_finish(). */
struct frame_arrays {
	void *gpus, *attempts, *positions;
};
void frame_arrays_finish(struct frame_arrays *a);

/* 0, -EBADMSG or -ENOMEM. Pointers in ret refer to `arrays` or into data. */
int frame_decode(const void *data, size_t size, struct frame_arrays *arrays, struct frame *ret);

#endif
