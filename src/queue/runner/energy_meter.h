/* SPDX-License-Identifier: MIT */
/*
 * The mean power of a job's GPUs while it runs, from their energy counters.
 *
 * A counter has no timestamp, and a sample may be as old as the one before. So each GPU is measured
 * from the first to the last observed change of its counter. A counter that goes backwards or is
 * missing once ends the measurement for good, and so does any other user of one of the GPUs: the meter
 * is then *spoiled*.
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

/* Start from energy_meter_init(); {0} is a spoiled meter. */
struct energy_meter {
	bool works;
	size_t num_gpus;
	struct energy_counter *counters;
};

/* 0 or -ENOMEM. */
int energy_meter_init(struct energy_meter *m, size_t num_gpus);
void energy_meter_finish(struct energy_meter *m);

/* Adds a reading of one GPU at this time. */
void energy_meter_read(struct energy_meter *m, size_t gpu, bool known, uint64_t millijoules, uint64_t now_ns);
void energy_meter_spoil(struct energy_meter *m);

/*
 * The mean power of all GPUs together, and for how long it was measured on each of them. False: not
 * known, or not yet.
 */
bool energy_meter_power(const struct energy_meter *m, int64_t *ret_milliwatts, int64_t *ret_span_ms);

#endif
