/* SPDX-License-Identifier: MIT */
/*
 * The GPUs that a job is pinned to with --gpu: "3", "0,1", "0-3", "GPU-uuid", "MIG-uuid" (the beginning of a UUID is
 * enough).
 *
 * A pin is kept as text in a normalized form: ranges expanded, no blanks, no GPU twice. It names at
 * least one GPU, and the job needs as many GPUs as the pin names. Pure: only gpu_pin_resolve() checks
 * whether the GPUs exist.
 */
#ifndef QUEUE_SCHEDULE_GPU_PIN_H
#define QUEUE_SCHEDULE_GPU_PIN_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

#define GPU_PIN_MAX 1024

/* -EINVAL with a message that describes the expected format. *ret is released with free(). */
int gpu_pin_parse(const char *text, char **ret, struct gd_error *err);

/* How many GPUs a pin names. */
size_t gpu_pin_count(const char *pin);

/*
 * Sets allowed[i] for each GPU that the pin names; the index of a GPU with MIG instances also names
 * these. -ENODEV if one of the names is not among the GPUs, -ENOTUNIQ if a UUID prefix matches several
 * GPUs; then ret_name (of at least GPU_PIN_NAME bytes, or NULL) is that name, and `allowed` is set
 * anyway.
 */
#define GPU_PIN_NAME 100
int gpu_pin_resolve(
	const char *pin, const struct gd_gpu *const *gpus, size_t num_gpus, bool *allowed, char ret_name[GPU_PIN_NAME]);

#endif
