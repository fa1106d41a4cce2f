/* SPDX-License-Identifier: MIT */
/* The last sample of the GPUs from the probe, and the claims of other queues. */
#ifndef QUEUE_RUNNER_WATCHING_H
#define QUEUE_RUNNER_WATCHING_H

#include "base/hash.h"
#include "queue/schedule/claim_proof.h"
#include "queue/schedule/claims.h"

struct gpu_probe;
struct loop_source;

struct runner_watching {
	struct gpu_probe *probe; /* NULL: it died and could not be replaced yet */
	struct loop_source *probe_source;
	struct gd_gpu_list *gpus;
	char *gpu_spec; /* the GPUs found at the start; NULL: as in the options */
	bool simulated;
	/* The probe is new: until each GPU has answered or been given up, `gpus` comes from the previous probe. */
	bool incomplete;
	struct claims *claims;     /* NULL: simulated GPUs, or no directory for claims */
	struct claim *spare_claim; /* unused, kept for the next job */
	struct claim_proofs proofs;
	char queue_name[HASH_TEXT];
	struct loop_source *sample;
	bool sample_due;     /* the timer is set */
	uint64_t sampled_ns; /* 0: not yet */
};

#endif
