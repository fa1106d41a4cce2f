/* SPDX-License-Identifier: MIT */
/*
 * The scheduler's cost per event while a million jobs wait: a job ends, one is added, one is cancelled, a sample
 * comes; each with the decision that follows. Medians and the 99th percentile, in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/units.h"
#include "queue/schedule/scheduler.h"

#define WAITING 1000000
#define GPUS    8
#define EVENTS  2000

static struct job *jobs;
static struct job_wish wishes[64];
static struct gd_gpu gpus[GPUS];
static const struct gd_gpu *pointers[GPUS];

static void fail(const char *what)
{
	fprintf(stderr, "schedule: %s\n", what);
	exit(1);
}

static void make_wishes(void)
{
	for (int i = 0; i < 64; i++)
		wishes[i] = (struct job_wish){.mem_mb = i % 4 ? 1024 * (1 + i) : -1,
			.min_free_mem_mb = -1,
			.num_gpus = i % 16 == 5 ? 4 : 1,
			.cpus = i % 8 == 3 ? 2 : 0};
}

static void add(struct scheduler *s, struct job *job, uint64_t id)
{
	char words[SCHEDULER_WORDS];
	*job = (struct job){.id = id, .wish = &wishes[id * 7 % 64]};
	if (scheduler_add(s, job, words) != 0)
		fail("out of memory");
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Running jobs, oldest first. */
static uint64_t running[GPUS * 64];
static size_t num_running;

static void decide(struct scheduler *s)
{
	struct scheduler_start start;
	while (scheduler_decide(s, 0, &start) == 1)
		if (num_running < sizeof(running) / sizeof(running[0]))
			running[num_running++] = start.job->id;
}

static void end_oldest(struct scheduler *s)
{
	if (num_running == 0)
		return;
	scheduler_end(s, running[0]);
	num_running--;
	for (size_t i = 0; i < num_running; i++)
		running[i] = running[i + 1];
}

static void event(struct scheduler *s, int kind, uint64_t n)
{
	switch (kind) {
	case 0:
		end_oldest(s);
		break;
	case 1:
		add(s, &jobs[WAITING + n], WAITING + n + 1);
		break;
	case 2:
		scheduler_remove(s, &jobs[WAITING / 2 + n]);
		break;
	default:
		if (scheduler_sample(s, n, pointers, GPUS) < 0)
			fail("out of memory");
	}
	decide(s);
}

int main(void)
{
	static const char *const names[] = {"a job ends", "a job is added", "a job is cancelled", "a sample comes"};
	static double times[EVENTS];
	struct jobs none;
	struct scheduler *s;
	jobs_init(&none);
	jobs = calloc(WAITING + EVENTS, sizeof(*jobs));
	if (!jobs || scheduler_create(&none, &s) < 0)
		fail("out of memory");
	make_wishes();
	for (int g = 0; g < GPUS; g++) {
		gpus[g] = (struct gd_gpu){.size = sizeof(gpus[g]),
			.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES,
			.vendor = GD_VENDOR_NVIDIA,
			.index = g,
			.mig_index = -1,
			.memory_total_bytes = 80 * UNITS_GB,
			.memory_free_bytes = 80 * UNITS_GB};
		pointers[g] = &gpus[g];
	}
	scheduler_configure(s, &(struct scheduler_settings){.rules = {.min_free_mem_mb = -1}, .cpus = 32});
	if (scheduler_sample(s, 0, pointers, GPUS) < 0)
		fail("out of memory");
	uint64_t before = clock_now_ns();
	for (uint64_t i = 0; i < WAITING; i++)
		add(s, &jobs[i], i + 1);
	printf("a million jobs added: %.2f s\n", (double)(clock_now_ns() - before) / 1e9);
	decide(s);
	for (int kind = 0; kind < 4; kind++) {
		for (uint64_t n = 0; n < EVENTS; n++) {
			before = clock_now_ns();
			event(s, kind, n);
			times[n] = (double)(clock_now_ns() - before) / 1e3;
		}
		qsort(times, EVENTS, sizeof(times[0]), compare);
		printf("%-20s %6.1f us, p99 %6.1f us (goal: 50)\n", names[kind], times[EVENTS / 2],
			times[EVENTS * 99 / 100]);
	}
	scheduler_destroy(s);
	free(jobs);
	return 0;
}
