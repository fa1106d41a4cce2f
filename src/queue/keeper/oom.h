/* SPDX-License-Identifier: MIT */
/*
 * Whether a job ran out of GPU memory: from what it wrote last, and from the GPU's own
 * figures. Its words alone suffice. The figures do where it says nothing: it ended as
 * programs end by themselves, with an error or a crash, and when it was last seen its
 * GPU was full, mostly by itself. A job that somebody killed, and one whose last words
 * are another error, is not taken for it: many fill their GPU and live.
 */
#ifndef QUEUE_KEEPER_OOM_H
#define QUEUE_KEEPER_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

/* How much of a log's end is worth reading. */
#define OOM_TAIL_BYTES (64 * 1024)

/*
 * True when a line of the text tells of exhausted GPU memory, in the words of
 * PyTorch, TensorFlow, JAX, CUDA and its libraries, HIP, OpenCL, Vulkan; never for
 * the host's memory. ret_line (may be NULL) is the last such line, inside `tail`.
 */
bool oom_in_log(const void *tail, size_t size, struct gd_bytes *ret_line);

/* True when the text ends in a Python exception that is not about a GPU, or tells of the host's memory. */
bool oom_denied_by_log(const void *tail, size_t size);

/*
 * One GPU of a sample, and how much of it the job had: less than 256 MB or 2 % is free,
 * and at least half of what is used is the job's. TensorFlow, which takes all there is,
 * leaves more than that.
 */
bool oom_is_full(uint64_t total_bytes, uint64_t free_bytes, uint64_t job_bytes);

/* An attempt that failed. */
struct oom_evidence {
	int exit_code; /* -1: none, see signal */
	int signal;
	bool full; /* in the last sample that saw it, oom_is_full() on one of its GPUs */
	const void *tail;
	size_t size;
};

bool oom_happened(const struct oom_evidence *e);

#endif
