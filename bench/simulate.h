/* SPDX-License-Identifier: MIT */
/*
 * A machine, other users and a workload, generated from a seed, that drive the scheduler as the runner does.
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
#define WORLD_KINDS  4
#define WORLD_RUNS   16 /* runs that are used to estimate the duration of the next one */

/* The world's knowledge of a job. */
struct world_job {
	uint64_t id;
	struct job_spec spec;
	uint64_t after[2];
	char gpu[8];
	char command[24], keeper[8];
	unsigned kind; /* jobs of one kind have similar commands and similar durations */
	int64_t duration_ms;
	uint64_t bytes; /* memory that it really uses on each GPU */
	bool fails;
	/* While it runs. */
	bool live;
	bool stuck;
	bool parked; /* a lease whose keeper cannot be reached: the runner retries later */
	unsigned attempts;
	int gpus[WORLD_GPUS];
	size_t num_gpus;
	int64_t start_ms, end_ms;
	uint64_t seen_bytes[WORLD_GPUS]; /* in the last sample */
	int64_t added_ms, first_start_ms;
};

struct world {
	uint64_t seed, random;
	bool plain; /* no claims, failures or other users */
	bool calm;  /* other users are inactive */
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
	struct text lines; /* written, not applied yet */
	/* Durations of completed jobs of each kind: the last WORLD_RUNS of num_runs. */
	int64_t run_ms[WORLD_KINDS][WORLD_RUNS];
	size_t num_runs[WORLD_KINDS];
	/* The first waiting job in the order, and when all jobs that blocked it must have ended. */
	uint64_t first;
	int64_t first_by_ms;
	/* Figures. */
	uint64_t starts, compared, refusals, restarts, parked, late;
};

/* Prints the message with seed and step, and ends the program. */
_Noreturn void world_fail(const struct world *w, const char *format, ...) GD_PRINTF(2, 3);

void world_init(struct world *w, uint64_t seed, bool plain);
void world_finish(struct world *w);
/* One step: time passes, something happens, jobs start. */
void world_step(struct world *w);
/* Runs without further faults: all jobs that can ever start must end. */
void world_drain(struct world *w);
uint32_t world_random(struct world *w, uint32_t below);
/* The scheduler's explanation for a job, for a fatal message. */
const char *world_explain(struct world *w, uint64_t id);
bool world_chance(struct world *w, uint32_t percent);
/* Passes the driver's next sample to the scheduler. */
void world_sample(struct world *w);

/* ---- simulate_runner.c: the runner's work around its decisions ---- */
/* Applies the lines that were written. */
void world_apply(struct world *w);
void world_start_runner(struct world *w);
/* The allocation has ended with all its jobs, and another runner starts. */
void world_restart(struct world *w);
/* The end of an allocation that starts now. */
int64_t world_next_end(struct world *w);
/* The clock has moved: jobs may begin, an allocation may have ended, leases are retried. */
void world_pass_time(struct world *w);
/* Whether the lease cannot be started now, so that it is put aside. */
bool world_park(struct world *w, struct job *job);
bool world_has_parked(const struct world *w);
void world_forget_scheduler(struct jobs *js);

/* ---- simulate_jobs.c: generation of jobs ---- */
void world_add_job(struct world *w);
void world_end_job(struct world *w, struct world_job *j, enum job_state state);
void world_interrupt_job(struct world *w, struct world_job *j);
struct world_job *world_find(struct world *w, uint64_t id);

/* ---- simulate_checks.c: is each decision allowed? ---- */
void check_start(struct world *w, const struct scheduler_start *start);
void check_state(struct world *w);
/* The jobs that start according to the published inputs, which check_predict() loads as `gpuq why` does. */
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
