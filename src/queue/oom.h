/* SPDX-License-Identifier: MIT */
/* Whether a job ran out of GPU memory, from what it wrote last. */
#ifndef QUEUE_OOM_H
#define QUEUE_OOM_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

/* How much of a log's end is worth reading. */
#define OOM_TAIL_BYTES (64 * 1024)

/*
 * True when a line of the text tells of exhausted GPU memory, in the words of
 * PyTorch, TensorFlow, JAX, CUDA and its libraries, HIP, OpenCL, Vulkan; never for
 * the host's memory. ret_line (may be NULL) is the last such line, inside `tail`.
 */
bool oom_in_log(const void *tail, size_t size, struct gd_bytes *ret_line);

#endif
