/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_energy.h"

#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

static bool share_a_gpu(const struct running *a, const struct running *b)
{
	for (size_t i = 0; i < a->num_gpus; i++)
		for (size_t k = 0; k < b->num_gpus; k++)
			if (a->gpus[i] == b->gpus[k])
				return true;
	return false;
}

void runner_energy_started(struct running *run)
{
	/* If out of memory, nothing is measured. */
	if (energy_meter_init(&run->energy, run->num_gpus) < 0)
		return;
	for (struct running *other = run->runner->executing.running; other; other = other->next)
		if (other != run && !other->foreign && share_a_gpu(run, other)) {
			energy_meter_spoil(&other->energy);
			energy_meter_spoil(&run->energy);
		}
}

static bool is_own(const struct running *run, int64_t pid)
{
	for (size_t i = 0; i < run->user.num_pids; i++)
		if (run->user.pids[i] == pid)
			return true;
	return false;
}

/* A process that has ended since the driver reported it cannot be attributed; most likely it belonged to the job. */
static bool is_gone(int64_t pid)
{
	return pid > 0 && pid <= INT32_MAX && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static bool is_alone(const struct runner *r, const struct running *run, int gpu)
{
	const struct gd_gpu *g = r->watching.gpus->gpus[gpu];
	if (!(g->known & GD_GPU_KNOWN_PROCESSES) || scheduler_is_claimed(r->deciding.scheduler, (size_t)gpu))
		return false;
	bool foreign_pids = gpu_users_foreign_pids(&r->machine);
	for (size_t i = 0; i < g->num_processes; i++)
		if (foreign_pids || (!is_own(run, g->processes[i]->pid) && !is_gone(g->processes[i]->pid)))
			return false;
	return true;
}

void runner_energy_sample(struct runner *r, struct running *run)
{
	uint64_t now_ns = clock_now_ns();
	/* Before the job's `start` has been read, its processes cannot be recognized. */
	if (!run->energy.works || !run->started)
		return;
	for (size_t i = 0; i < run->num_gpus; i++) {
		const struct gd_gpu *g = r->watching.gpus->gpus[run->gpus[i]];
		if (!is_alone(r, run, run->gpus[i]))
			energy_meter_spoil(&run->energy);
		energy_meter_read(&run->energy, i, g->known & GD_GPU_KNOWN_ENERGY, g->energy_millijoules, now_ns);
	}
}
