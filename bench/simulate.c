/* SPDX-License-Identifier: MIT */
/*
 * simulate [--seed N] [--seeds COUNT] [--steps COUNT]
 *
 * Drives the scheduler through random machines, workloads, claims and failures, and checks each decision
 * (simulate_checks.c). With --seed it runs that seed alone, which reproduces a failure. Then it prints how long the
 * same kind of workload takes with the scheduler and with a simple queue. Exits 1 at the first violation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

struct figures {
	uint64_t seeds, steps, starts, compared, refusals, restarts, parked, late;
};

/* In one seed of three, other users soon become inactive while most jobs still wait: only then is a wait bounded. */
static void run_seed(uint64_t seed, unsigned steps, struct figures *f)
{
	static struct world w;
	if (steps == 0)
		steps = seed % 3 == 0 ? 25 : 120;
	world_init(&w, seed, false);
	for (unsigned i = 0; i < steps; i++)
		world_step(&w);
	world_drain(&w);
	f->seeds++;
	f->steps += w.step;
	f->starts += w.starts;
	f->compared += w.compared;
	f->refusals += w.refusals;
	f->restarts += w.restarts;
	f->parked += w.parked;
	f->late += w.late;
	world_finish(&w);
}

/* ---- Comparison with a simple queue ------------------------------------------------------------ */

static void compare_seed(uint64_t seed, double *makespan, double *wait, struct fifo_result *fifo)
{
	static struct world w;
	double end = 0, waited = 0;
	world_init(&w, seed, true);
	while (w.num_jobs < w.max_jobs)
		world_add_job(&w);
	world_drain(&w);
	for (size_t i = 1; i <= w.num_jobs; i++) {
		const struct world_job *j = &w.jobs[i];
		double over = (double)(j->end_ms - w.jobs[1].added_ms) / 1000;
		end = over > end ? over : end;
		waited += (double)(j->first_start_ms - j->added_ms) / 1000;
	}
	struct fifo_result r = fifo_run(&w);
	fifo->makespan_s += r.makespan_s;
	fifo->mean_wait_s += r.mean_wait_s;
	*makespan += end;
	*wait += waited / (double)w.num_jobs;
	world_finish(&w);
}

static void compare(uint64_t first, uint64_t count)
{
	double makespan = 0, wait = 0;
	struct fifo_result fifo = {0};
	for (uint64_t i = 0; i < count; i++)
		compare_seed(first + i, &makespan, &wait, &fifo);
	double n = (double)count;
	printf("%d jobs on %d GPUs of 24 GB, 60 %% of them with --mem, mean of %llu workloads:\n", WORLD_JOBS,
		WORLD_GPUS, (unsigned long long)count);
	printf("  simple queue  makespan %6.0f s  mean wait %6.0f s\n", fifo.makespan_s / n, fifo.mean_wait_s / n);
	printf("  scheduler     makespan %6.0f s  mean wait %6.0f s  (ratios %.2f and %.2f)\n", makespan / n, wait / n,
		makespan / fifo.makespan_s, wait / fifo.mean_wait_s);
}

/* ---- The command line -------------------------------------------------------------------------- */

static uint64_t number(const char *option, const char *text)
{
	char *end;
	unsigned long long n = text ? strtoull(text, &end, 10) : 0;
	if (!text || !*text || *end) {
		fprintf(stderr, "simulate: %s needs a number\n", option);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, count = 200, steps = 0;
	struct figures f = {0};
	for (int i = 1; i < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0) {
			first = number(argv[i], argv[i + 1]);
			count = 1;
		} else if (strcmp(argv[i], "--seeds") == 0) {
			count = number(argv[i], argv[i + 1]);
		} else if (strcmp(argv[i], "--steps") == 0) {
			steps = number(argv[i], argv[i + 1]);
		} else {
			fprintf(stderr, "usage: simulate [--seed N] [--seeds COUNT] [--steps COUNT]\n");
			return 2;
		}
	}
	for (uint64_t i = 0; i < count; i++)
		run_seed(first + i, (unsigned)steps, &f);
	printf("%llu seeds, %llu steps, %llu starts, %llu refused claims: every invariant held\n",
		(unsigned long long)f.seeds, (unsigned long long)f.steps, (unsigned long long)f.starts,
		(unsigned long long)f.refusals);
	printf("%llu allocations ended, %llu times a job was too long for the remaining time, %llu leases were retried\n",
		(unsigned long long)f.restarts, (unsigned long long)f.late, (unsigned long long)f.parked);
	printf("%llu states published, loaded and compared with what started next\n", (unsigned long long)f.compared);
	compare(first, count < 20 ? count : 20);
	return 0;
}
