/* SPDX-License-Identifier: MIT */
#include "gpu/probe.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "gpu/backend.h"

static int sample_here(const struct gpu_spec *spec, struct gpu_set *ret)
{
	void *state = NULL;
	unsigned cards;
	int r = gpu_sim.open(spec, ret, &state, &cards);
	for (unsigned card = 0; r == 0 && card < cards; card++) {
		r = gpu_sim.sample(state, card, ret);
		if (r == 0)
			ret->gpus[card].index = (int)card;
	}
	gpu_sim.close(state);
	return r;
}

int gpu_probe_once(const struct gpu_spec *spec, struct gpu_set *ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set set = {0};
	int r = spec->kind == GPU_SPEC_SIM ? sample_here(spec, &set) : 0;
	if (r < 0)
		return error_set(err, r, "listing GPUs: out of memory");
	*ret = set;
	set = (struct gpu_set){0};
	return 0;
}
