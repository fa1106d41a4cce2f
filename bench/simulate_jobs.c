/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "queue/journal/record.h"
#include "simulate.h"

struct world_job *world_find(struct world *w, uint64_t id)
{
	return &w->jobs[id];
}

static void set_memory(struct world *w, struct world_job *j)
{
	uint64_t most = 4 + world_random(w, 20);
	if (world_random(w, 100) < 60) {
		j->spec.mem_mb = (int64_t)(1 + world_random(w, (uint32_t)most)) * 1024;
		/* Most jobs use what they declared. */
		uint64_t declared = (uint64_t)j->spec.mem_mb * UNITS_MB;
		j->bytes = world_random(w, 10) ? declared * (50 + world_random(w, 51)) / 100 : declared + UNITS_GB;
		return;
	}
	if (world_random(w, 100) < 15 && !w->plain)
		j->spec.min_free_mem_mb = (int64_t)world_random(w, 10) * 1000;
	j->bytes = world_random(w, 12) * UNITS_GB;
}

static void set_others(struct world *w, struct world_job *j)
{
	if (world_random(w, 100) < 15)
		j->spec.num_gpus = (int)world_random(w, 4);
	if (world_random(w, 100) < 10 && j->spec.num_gpus != 0)
		j->spec.exclusive = true;
	if (w->plain)
		return;
	if (world_random(w, 100) < 8 && j->spec.num_gpus < 0) {
		snprintf(j->gpu, sizeof(j->gpu), "%u", world_random(w, WORLD_GPUS));
		j->spec.gpu = j->gpu;
		j->spec.num_gpus = 1;
	}
	if (world_random(w, 100) < 15)
		j->spec.cpus = 1 + (int)world_random(w, 8);
	if (world_random(w, 100) < 15)
		j->spec.host_mem_mb = (int64_t)(1 + world_random(w, 64)) * 1024;
	if (world_random(w, 100) < 20)
		j->spec.priority = (int)world_random(w, 3);
	if (world_random(w, 100) < 15)
		j->spec.retries = 1;
	j->spec.held = world_random(w, 100) < 3;
	j->fails = world_random(w, 100) < 20;
	for (size_t n = world_random(w, 100) < 15 ? 1 + world_random(w, 2) : 0; n > 0 && j->id > 2; n--)
		j->after[j->spec.num_after++] = 1 + world_random(w, (uint32_t)j->id - 1);
}

/* Begin times, timeouts, kinds and leases. */
static void set_times(struct world *w, struct world_job *j)
{
	static const int64_t typical_ms[WORLD_KINDS] = {5000, 20000, 60000, 180000};
	j->kind = world_chance(w, 50) ? 0 : world_random(w, WORLD_KINDS);
	snprintf(j->command, sizeof(j->command), "%c --seed %u", (char)('a' + j->kind), (unsigned)j->id);
	j->spec.command = j->command;
	j->spec.command_size = strlen(j->command);
	j->duration_ms = typical_ms[j->kind] * (40 + world_random(w, 120)) / 100;
	if (world_chance(w, 15))
		j->spec.timeout_ms = j->duration_ms + world_random(w, 100000);
	if (world_chance(w, 12))
		j->spec.begin_ms = w->now_ms + world_random(w, 90000);
	if (world_chance(w, 12) && !j->spec.held) {
		snprintf(j->keeper, sizeof(j->keeper), "L%u", (unsigned)j->id);
		j->spec.keeper = j->keeper;
		j->spec.retries = -1;
		record_write_keeper(&w->lines, j->keeper, (pid_t)(1000 + j->id), &(struct machine){.host = "here"}, "");
	}
}

void world_add_job(struct world *w)
{
	struct world_job *j = &w->jobs[++w->num_jobs];
	*j = (struct world_job){.id = w->num_jobs,
		.spec = {.command = "true",
			.command_size = 4,
			.num_gpus = -1,
			.mem_mb = -1,
			.min_free_mem_mb = -1,
			.timeout_ms = -1,
			.retries = -1},
		.added_ms = w->now_ms,
		.duration_ms = 1000 * (1 + (int64_t)world_random(w, 20) * world_random(w, 20))};
	j->spec.after = j->after;
	set_memory(w, j);
	set_others(w, j);
	if (!w->plain)
		set_times(w, j);
	if (j->spec.num_gpus == 0) {
		j->spec.mem_mb = j->spec.min_free_mem_mb = -1;
		j->bytes = 0;
	}
	record_write_add(&w->lines, j->id, w->now_ms, &j->spec);
	world_apply(w);
}

void world_end_job(struct world *w, struct world_job *j, enum job_state state)
{
	const struct job *job = jobs_find(&w->fold, j->id);
	j->live = false;
	if (state == JOB_COMPLETED)
		w->run_ms[j->kind][w->num_runs[j->kind]++ % WORLD_RUNS] = w->now_ms - j->start_ms;
	record_write_end(&w->lines, &(struct attempt_end){.id = j->id,
					    .attempt = job->attempts->attempt,
					    .time_ms = w->now_ms,
					    .state = state,
					    .exit_code = state == JOB_COMPLETED ? 0 : 1,
					    .duration_ms = w->now_ms - j->start_ms,
					    .peak_mem_mb = -1,
					    .energy_j = -1});
	world_apply(w);
}

void world_interrupt_job(struct world *w, struct world_job *j)
{
	j->live = j->stuck = false;
	record_write_end(&w->lines, &(struct attempt_end){.id = j->id,
					    .attempt = jobs_find(&w->fold, j->id)->attempts->attempt,
					    .time_ms = w->now_ms,
					    .state = JOB_CANCELLED,
					    .exit_code = -1,
					    .interrupted = true,
					    .duration_ms = w->now_ms - j->start_ms,
					    .peak_mem_mb = -1});
	world_apply(w);
}
