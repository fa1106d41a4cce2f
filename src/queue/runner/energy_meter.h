/* SPDX-License-Identifier: MIT */
/*
 * The mean power of a job's GPUs while it runs, from their energy counters.
 *
 * A counter has no time of its own, and a sample may be as old as the one before. So each GPU is measured from the
 * first change of its counter to the last one that was seen. A counter that goes backwards or is missing once ends the
 * measurement for good, and so does anybody else on one of the GPUs: the meter is spoiled then.
 */
#ifndef QUEUE_RUNNER_ENERGY_METER_H
#define QUEUE_RUNNER_ENERGY_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct energy_counter {
	bool seen, moved;
	uint64_t seen_mj;
	uint64_t first_mj, first_ns; /* at the first change */
	uint64_t last_ns;            /* when seen_mj was first seen */
};

/* Start from energy_meter_init(); {0} is a meter that is spoiled. */
struct energy_meter {
	bool works;
	size_t num_gpus;
	struct energy_counter *counters;
};

/* 0 or -ENOMEM. */
int energy_meter_init(struct energy_meter *m, size_t num_gpus);
void energy_meter_finish(struct energy_meter *m);

/* A reading of one GPU, at this time. */
void energy_meter_read(struct energy_meter *m, size_t gpu, bool known, uint64_t millijoules, uint64_t now_ns);
void energy_meter_spoil(struct energy_meter *m);

/*
 * The mean power of all GPUs together, and for how long it was measured on each of them. False: nothing can be said,
 * or not yet.
 */
bool energy_meter_power(const struct energy_meter *m, int64_t *ret_milliwatts, int64_t *ret_span_ms);

#endif
