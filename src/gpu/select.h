/* SPDX-License-Identifier: MIT */
/* Selects the requested and permitted GPUs from those that exist. */
#ifndef GPU_SELECT_H
#define GPU_SELECT_H

#include "gpu/set.h"
#include "gpu/spec.h"

/*
 * Removes GPUs that an inherited CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES hides, or that Slurm
 * has not granted. Indices are unchanged.
 */
int gpu_limit(struct gpu_set *there);

/*
 * If no driver reported a GPU, adds those that gpu_grant_variable() names. Nothing else is known about them. A warning
 * reports this or, if nothing was granted, what is missing.
 */
int gpu_grant(struct gpu_set *there);

/*
 * The variable that lists the NVIDIA GPUs this process was granted: CUDA_VISIBLE_DEVICES, as Slurm and containers set
 * it, else SLURM_STEP_GPUS or SLURM_JOB_GPUS; NULL: none is set.
 */
const char *gpu_grant_variable(void);

/* Whether a GPU comes from gpu_grant(). */
bool gpu_is_granted(const struct gd_gpu *gpu);

/* The GPUs that a specification selects, and warnings; see gd_gpu_list(). `there` is in the order of the survey. */
int gpu_select(const struct gpu_set *there, const struct gpu_spec *spec, struct gpu_set *ret, struct gd_error *err);

/*
 * The GPUs with these numbers, in their order, repeated as often as given; a split card selects its instances. -ENODEV
 * with the reason if one cannot be used.
 */
int gpu_pick(const struct gpu_set *there, const int *ids, size_t num_ids, struct gpu_set *ret, struct gd_error *err);

/* Why no work can be placed on the GPU: "it has fallen off the bus"; NULL if it is usable. */
const char *gpu_unusable_reason(const struct gd_gpu *gpu);

#endif
