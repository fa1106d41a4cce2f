/* SPDX-License-Identifier: MIT */
/* The CPUs that are close to GPUs: those of their NUMA nodes. */
#ifndef GPU_AFFINITY_H
#define GPU_AFFINITY_H

#include "base/text.h"
#include "gpu_dispatch.h"

/*
 * Appends the CPUs of the nodes of these GPUs that this process may use, as "0-15,32-47". Appends nothing if a node is
 * unknown or has no such CPU, because then no CPU is closer than another.
 */
void gpu_affinity(const struct gd_gpu *const *gpus, size_t num_gpus, struct text *out);

#endif
