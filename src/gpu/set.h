/* SPDX-License-Identifier: MIT */
/*
 * GPUs while they are being collected. Start from `struct gpu_set s = {0}`; release with gpu_set_finish(), also as
 * cleanup_(gpu_set_finish). A set owns its GPUs' processes and its warnings, and copies everything that is added.
 */
#ifndef GPU_SET_H
#define GPU_SET_H

#include <stddef.h>

#include "gpu_dispatch.h"

struct gpu_set {
	struct gd_gpu *gpus;
	size_t count, capacity;
	char **warnings;
	size_t num_warnings, warnings_capacity;
};

void gpu_set_finish(struct gpu_set *s);

/* Appends a copy of the GPU and its processes; 0 or -ENOMEM. */
int gpu_set_add(struct gpu_set *s, const struct gd_gpu *gpu);

/*
 * The same for a GPU whose processes are a plain array; the fields of *gpu for processes are overwritten during the
 * call.
 */
int gpu_set_add_with(struct gpu_set *s, struct gd_gpu *gpu, const struct gd_gpu_process *processes, size_t count);

/* Appends a warning of one line; 0 or -ENOMEM. */
int gpu_set_warn(struct gpu_set *s, const char *format, ...) GD_PRINTF(2, 3);

void gpu_set_swap_warnings(struct gpu_set *a, struct gpu_set *b);

/* The same GPUs and warnings in one allocation, for gd_gpu_list_free(). */
int gpu_set_to_list(const struct gpu_set *s, struct gd_gpu_list **ret);

#endif
