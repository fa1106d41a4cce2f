/* SPDX-License-Identifier: MIT */
/*
 * A specification of GPUs, parsed: "auto", "all", "0,1,2", "0-3", "GPU-uuid",
 * "MIG-uuid", "sim:N[xSIZE]".
 *
 * It names a machine and a selection of its GPUs. The machine is simulated if the
 * text or $GPUQ_GPUS is "sim:N[xSIZE]"; otherwise it is the real one. Parsing calls no driver: whether the GPUs exist
 * is checked when they are selected.
 */
#ifndef GPU_SPEC_H
#define GPU_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

#define GPU_SPEC_MAX_INDEX 65535
#define GPU_SPEC_MAX_SIM   1024

enum gpu_spec_kind {
	GPU_SPEC_ALL = 0, /* every usable GPU of the machine */
	GPU_SPEC_ITEMS,
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
	int sim_count; /* GPUs of a simulated machine; 0: the real machine */
	uint64_t sim_memory_bytes;
};

/* "real", or "sim:NxSIZE" with the size in bytes. */
#define GPU_MACHINE_REAL "real"
#define GPU_MACHINE_SIZE 48

/*
 * NULL and "auto" mean $GPUQ_GPUS; if that is unset or empty, every usable GPU. -EINVAL if the text or the variable is
 * wrong; the error names the wrong one.
 *
 * `machine`: NULL, or what gpu_spec_machine() returned in another process. It is used in place of $GPUQ_GPUS.
 */
int gpu_spec_parse(const char *text, const char *machine, struct gpu_spec *ret, struct gd_error *err);
/* The machine whose GPUs the specification selects, as one word. */
void gpu_spec_machine(const struct gpu_spec *spec, char ret[GPU_MACHINE_SIZE]);
void gpu_spec_finish(struct gpu_spec *spec);

#endif
