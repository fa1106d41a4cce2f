/* SPDX-License-Identifier: MIT */
/* Bindings in addition to gd_gpu_bind(). */
#ifndef GPU_BIND_H
#define GPU_BIND_H

#include "gpu_dispatch.h"

/*
 * The environment of a child process that is not bound to a GPU: GPUQ_GPU holds the numbers, and the child sees the
 * same GPUs as this process. The GPUs need not exist; no driver is called. -EINVAL for a negative number. Release with
 * free(), as after gd_gpu_bind().
 */
int gpu_bind_none(const int *ids, size_t num_ids, struct gd_env_change **ret, struct gd_error *err);

#endif
