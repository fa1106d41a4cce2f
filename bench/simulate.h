/* SPDX-License-Identifier: MIT */
/*
 * A machine, other users and a workload, made from a seed, that drive the scheduler as the runner does.
 *
 * The world knows the truth (which job has how much memory on which GPU) and computes from it, without the scheduler's
 * ledger, whether each decision was allowed. A violation is printed with the seed and the step, and ends the program.
 */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/schedule/scheduler.h"

#define WORLD_GPUS   8
#define WORLD_JOBS   96
#define WORLD_CLAIMS 4

/* What the world knows of a job. */
struct world_job {
	uint64_t id;
	struct job_spec spec;
	uint64_t after[2];
	char gpu[8];
	int64_t duration_ms;
	uint64_t bytes; /* what it really takes on each GPU */
	bool fails;
	/* While it runs. */
	bool live;
	bool stuck;
	int gpus[WORLD_GPUS];
	size_t num_gpus;
	int64_t start_ms, end_ms;
	uint64_t seen_bytes[WORLD_GPUS]; /* in the last sample */
	int64_t added_ms, first_start_ms;
};

struct world {
	uint64_t seed, random;
	bool plain; /* no claims, failures or other users */
	bool calm;  /* other users do nothing any more */
	int64_t now_ms;
	unsigned step;
	struct scheduler_settings settings;
	/* The GPUs as they are, and as they were last sampled. */
	struct gd_gpu gpus[WORLD_GPUS];
	const struct gd_gpu *gpu_pointers[WORLD_GPUS];
	size_t num_gpus;
	uint64_t foreign_bytes[WORLD_GPUS], sampled_foreign[WORLD_GPUS];
	struct gd_gpu_process processes[WORLD_GPUS][WORLD_JOBS + 1];
	const struct gd_gpu_process *process_pointers[WORLD_GPUS][WORLD_JOBS + 1];
	struct ledger_job claims[WORLD_CLAIMS];
	struct ledger_claimant claimants[WORLD_CLAIMS];
	int claim_gpus[WORLD_CLAIMS][1];
	size_t num_claims;
	/* Jobs: the truth, the runner's fold with its scheduler, and the fold of an observer. */
	struct world_job jobs[WORLD_JOBS + 1];
	size_t num_jobs, max_jobs;
	struct jobs fold, other_fold;
	struct scheduler *scheduler;
	struct text lines; /* to be applied */
	/* Figures. */
	uint64_t starts, compared, refusals;
};

/* Prints the message with seed and step, and ends the program. */
_Noreturn void world_fail(const struct world *w, const char *format, ...) GD_PRINTF(2, 3);

void world_init(struct world *w, uint64_t seed, bool plain);
void world_finish(struct world *w);
/* One step: time passes, something happens, jobs start. Returns whether anything can still happen. */
void world_step(struct world *w);
/* Nothing bad happens any more: all jobs that can ever start must end. */
void world_drain(struct world *w);
uint32_t world_random(struct world *w, uint32_t below);
void world_apply(struct world *w);

/* ---- simulate_jobs.c: what jobs are added ---- */
void world_add_job(struct world *w);
void world_end_job(struct world *w, struct world_job *j, enum job_state state);
struct world_job *world_find(struct world *w, uint64_t id);

/* ---- simulate_checks.c: is each decision allowed? ---- */
void check_start(struct world *w, const struct scheduler_start *start);
void check_state(struct world *w);
/* Loads the published inputs as `gpuq why` does; ret_starts: what it says will start. */
struct predicted {
	size_t count;
	struct {
		uint64_t id;
		int gpus[WORLD_GPUS];
		size_t num_gpus;
	} starts[WORLD_JOBS];
};
void check_predict(struct world *w, struct predicted *ret);
bool world_alone(const struct world *w, const struct world_job *j);
uint64_t world_promise(const struct world *w, const struct world_job *j, size_t gpu);

/* ---- simulate_fifo.c: the same jobs without a scheduler ---- */
struct fifo_result {
	double makespan_s, mean_wait_s;
};
struct fifo_result fifo_run(const struct world *w);

#endif
