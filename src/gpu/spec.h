/* SPDX-License-Identifier: MIT */
/*
 * A specification of GPUs, parsed: "auto", "all", "0,1,2", "0-3", "GPU-uuid",
 * "MIG-uuid", "sim:N[xSIZE]". Nothing is asked of a driver here: whether these
 * GPUs are there is seen when they are selected.
 */
#ifndef GPU_SPEC_H
#define GPU_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

#define GPU_SPEC_MAX_INDEX 65535
#define GPU_SPEC_MAX_SIM   1024

enum gpu_spec_kind {
	GPU_SPEC_AUTO = 0,
	GPU_SPEC_ITEMS,
	GPU_SPEC_SIM,
};

/* Indices first…last, or, where uuid is not NULL, the beginning of a UUID. */
struct gpu_spec_item {
	int first;
	int last;
	char *uuid;
};

struct gpu_spec {
	enum gpu_spec_kind kind;
	char *text;         /* as it was written, for messages */
	const char *source; /* where it was written: "GPU specification", "$GPUQ_GPUS" */
	struct gpu_spec_item *items;
	size_t num_items, capacity;
	int sim_count;
	uint64_t sim_memory_bytes;
};

/* NULL means $GPUQ_GPUS, or "auto" where that is not set or empty. -EINVAL with the words. */
int gpu_spec_parse(const char *text, struct gpu_spec *ret, struct gd_error *err);
void gpu_spec_finish(struct gpu_spec *spec);

#endif
