/* SPDX-License-Identifier: MIT */
/* Internal functions in addition to the public ones. */
#ifndef GPU_LIST_H
#define GPU_LIST_H

#include "gpu_dispatch.h"

/*
 * The GPUs with these numbers, in this order, repeated as often as given; a split card stands for all its instances.
 * -ENODEV if a GPU is missing or unusable; err names it.
 */
int gpu_list_ids(const int *ids, size_t num_ids, struct gd_gpu_list **ret, struct gd_error *err);

/*
 * Returns what gd_gpu_list() returns in another process, whose gpu_probe_machine() is `machine`: $GPUQ_GPUS,
 * CUDA_VISIBLE_DEVICES and similar variables of this process are ignored. If `machine` is NULL, the same as
 * gd_gpu_list().
 */
int gpu_list_of_machine(const char *spec, const char *machine, struct gd_gpu_list **ret, struct gd_error *err);

#endif
