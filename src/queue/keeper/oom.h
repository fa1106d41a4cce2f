/* SPDX-License-Identifier: MIT */
/*
 * Detects whether a job ran out of GPU memory, from the end of its log and from the GPU's memory
 * usage. A message in the log is sufficient. Without a message, the usage decides: the job ended by
 * itself with an error or a crash, and in its last sample its GPU was full, mostly with the job's own
 * memory. A job that was killed, or whose log ends with another error, does not count: many jobs fill
 * their GPU and work.
 */
#ifndef QUEUE_KEEPER_OOM_H
#define QUEUE_KEEPER_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

/* How many bytes of a log's end to read. */
#define OOM_TAIL_BYTES (64 * 1024)

/*
 * True if a line of the text reports exhausted GPU memory, as worded by PyTorch, TensorFlow, JAX, CUDA
 * and its libraries, HIP, OpenCL, Vulkan; never for the host's memory. ret_line (may be NULL) is the
 * last such line, inside `tail`.
 */
bool oom_in_log(const void *tail, size_t size, struct gd_bytes *ret_line);

/* True if the text ends in a Python exception that is not about a GPU, or reports exhausted host memory. */
bool oom_denied_by_log(const void *tail, size_t size);

/*
 * True if less than 256 MB or 2% of a GPU is free, and the job has at least half of the used memory.
 * TensorFlow, which allocates all it can, leaves more free.
 */
bool oom_is_full(uint64_t total_bytes, uint64_t free_bytes, uint64_t job_bytes);

/* An attempt that failed. */
struct oom_evidence {
	int exit_code; /* -1: none, see signal */
	int signal;
	bool full; /* oom_is_full() for one of its GPUs in the job's last sample */
	const void *tail;
	size_t size;
};

bool oom_happened(const struct oom_evidence *e);

#endif
