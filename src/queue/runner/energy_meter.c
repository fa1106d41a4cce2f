/* SPDX-License-Identifier: MIT */
#include "queue/runner/energy_meter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

int energy_meter_init(struct energy_meter *m, size_t num_gpus)
{
	*m = (struct energy_meter){.num_gpus = num_gpus};
	m->counters = calloc(num_gpus + 1, sizeof(*m->counters));
	m->works = m->counters && num_gpus > 0;
	return m->counters ? 0 : -ENOMEM;
}

void energy_meter_finish(struct energy_meter *m)
{
	free(m->counters);
	*m = (struct energy_meter){0};
}

void energy_meter_spoil(struct energy_meter *m)
{
	m->works = false;
}

void energy_meter_read(struct energy_meter *m, size_t gpu, bool known, uint64_t millijoules, uint64_t now_ns)
{
	if (!m->works)
		return;
	struct energy_counter *c = &m->counters[gpu];
	if (!known || (c->seen && millijoules < c->seen_mj)) {
		energy_meter_spoil(m);
		return;
	}
	bool changed = c->seen && millijoules > c->seen_mj;
	if (changed && !c->moved) {
		c->moved = true;
		c->first_mj = millijoules;
		c->first_ns = now_ns;
	}
	if (changed)
		c->last_ns = now_ns;
	c->seen = true;
	c->seen_mj = millijoules;
}

bool energy_meter_power(const struct energy_meter *m, int64_t *ret_milliwatts, int64_t *ret_span_ms)
{
	double milliwatts = 0;
	uint64_t shortest_ns = UINT64_MAX;
	if (!m->works)
		return false;
	for (size_t i = 0; i < m->num_gpus; i++) {
		const struct energy_counter *c = &m->counters[i];
		uint64_t span_ns = c->moved ? c->last_ns - c->first_ns : 0;
		if (span_ns == 0)
			return false;
		milliwatts += (double)(c->seen_mj - c->first_mj) * 1e9 / (double)span_ns;
		shortest_ns = span_ns < shortest_ns ? span_ns : shortest_ns;
	}
	/* No GPUs use this much: the counters are wrong. */
	if (milliwatts > 1e9)
		return false;
	*ret_milliwatts = (int64_t)(milliwatts + 0.5);
	*ret_span_ms = (int64_t)(shortest_ns / NS_PER_MS);
	return true;
}
