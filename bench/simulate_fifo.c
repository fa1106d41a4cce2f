/* SPDX-License-Identifier: MIT */
/* A simple queue with the same jobs: in order, whole GPUs, no overtaking. */
#include "simulate.h"

struct fifo_result fifo_run(const struct world *w)
{
	double busy_until[WORLD_GPUS] = {0}, last = 0, end = 0, waited = 0;
	for (size_t i = 1; i <= w->num_jobs; i++) {
		const struct world_job *j = &w->jobs[i];
		size_t want = j->spec.num_gpus < 0 ? 1 : (size_t)j->spec.num_gpus;
		double added = (double)(j->added_ms - w->jobs[1].added_ms) / 1000, start = added > last ? added : last;
		int chosen[WORLD_GPUS];
		/* The GPUs that are free first. */
		for (size_t n = 0; n < want; n++) {
			int best = -1;
			for (size_t g = 0; g < w->num_gpus; g++) {
				int taken = 0;
				for (size_t k = 0; k < n; k++)
					taken |= chosen[k] == (int)g;
				if (!taken && (best < 0 || busy_until[g] < busy_until[best]))
					best = (int)g;
			}
			chosen[n] = best;
			start = busy_until[best] > start ? busy_until[best] : start;
		}
		last = start;
		for (size_t n = 0; n < want; n++)
			busy_until[chosen[n]] = start + (double)j->duration_ms / 1000;
		waited += start - added;
		double over = start + (double)j->duration_ms / 1000;
		end = over > end ? over : end;
	}
	return (struct fifo_result){end, waited / (double)w->num_jobs};
}
