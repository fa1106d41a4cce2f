/* SPDX-License-Identifier: MIT */
/* From the GPUs that are there, those that somebody asked for and may use. */
#ifndef GPU_SELECT_H
#define GPU_SELECT_H

#include "gpu/set.h"
#include "gpu/spec.h"

/*
 * Takes out what an inherited CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or
 * HIP_VISIBLE_DEVICES hides, or what Slurm has not granted. Indices stay as they were.
 */
int gpu_limit(struct gpu_set *there);

/*
 * Without any GPU that a driver told of: adds those that gpu_grant_variable() names.
 * Nothing else is known of them. Says so in a warning, and also what is missing if nothing was granted.
 */
int gpu_grant(struct gpu_set *there);

/*
 * The variable that says which NVIDIA GPUs this process was granted: CUDA_VISIBLE_DEVICES, as Slurm and containers set
 * it, else SLURM_STEP_GPUS or SLURM_JOB_GPUS; NULL: none is set.
 */
const char *gpu_grant_variable(void);

/* Whether a GPU comes from gpu_grant(). */
bool gpu_is_granted(const struct gd_gpu *gpu);

/* What a specification selects, warnings included; see gd_gpu_list(). `there` is in the order of the survey. */
int gpu_select(const struct gpu_set *there, const struct gpu_spec *spec, struct gpu_set *ret, struct gd_error *err);

/*
 * What numbers select, in their order, one as often as it stands there; a split
 * card gives its instances. One that cannot be used is an error that says why.
 */
int gpu_pick(const struct gpu_set *there, const int *ids, size_t num_ids, struct gpu_set *ret, struct gd_error *err);

/* Why work cannot be put on it: "it has fallen off the bus"; NULL where it can. */
const char *gpu_unusable_reason(const struct gd_gpu *gpu);

#endif
