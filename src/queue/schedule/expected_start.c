/* SPDX-License-Identifier: MIT */
#include "queue/schedule/expected_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* 80% of a normal distribution lie within this many standard deviations of the mean. */
#define Z80 1.2816

/*
 * When a slot becomes free: the sum of the durations of its earlier jobs. Two errors accumulate:
 * durations vary from run to run, independently (add the variances), and the estimate itself may be
 * wrong, with the same error for all jobs of a kind (add the errors themselves).
 */
struct moment {
	bool unknown; /* after a job without data: sorts last */
	double ms, variance, bias;
};

/* Newton's method: gpuq does not link libm. */
static double square_root(double x)
{
	double root = x > 1 ? x : 1;
	if (x <= 0)
		return 0;
	for (double next = (root + x / root) / 2; next < root; next = (root + x / root) / 2)
		root = next;
	return root;
}

static struct moment after(struct moment m, const struct duration_estimate *e)
{
	if (e->samples == 0)
		return (struct moment){.unknown = true};
	double deviation = (e->high_ms - e->low_ms) / (2 * Z80);
	m.ms += e->median_ms;
	m.variance += deviation * deviation;
	m.bias += deviation / square_root(e->samples);
	return m;
}

static int compare(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;
	if (x->unknown || y->unknown)
		return x->unknown - y->unknown;
	return (x->ms > y->ms) - (x->ms < y->ms);
}

static struct expected_start start_at(const struct moment *m, bool at_most)
{
	if (m->unknown)
		return (struct expected_start){0};
	double spread = Z80 * square_root(m->variance + m->bias * m->bias);
	return (struct expected_start){.known = true,
		.at_most = at_most,
		.low_ms = spread < m->ms ? m->ms - spread : 0,
		.median_ms = m->ms,
		.high_ms = m->ms + spread};
}

/* Replaces the first `count` of the sorted slots, which all get the same moment, and keeps the slots sorted. */
static void occupy(struct moment *slots, unsigned num_slots, unsigned count, struct moment until)
{
	unsigned at = count;
	while (at < num_slots && compare(&slots[at], &until) < 0)
		at++;
	memmove(slots, slots + count, (at - count) * sizeof(*slots));
	for (unsigned i = at - count; i < at; i++)
		slots[i] = until;
}

static struct expected_start place(struct moment *slots, unsigned num_slots, const struct expected_job *job)
{
	static const struct moment now;
	if (job->slots == 0)
		return start_at(&now, false);
	if (job->slots > num_slots)
		return (struct expected_start){0};
	if (job->slots > num_slots - job->blocked)
		return (struct expected_start){.blocked = true};
	/* Assume that others block the slots that become free first: the job waits, so slots that seem to be free now
	 * are blocked. Which of the other slots are blocked is not known. */
	slots += job->blocked;
	num_slots -= job->blocked;
	/* Sorted: the last of the slots that the job takes becomes free last. */
	struct moment begin = slots[job->slots - 1];
	bool at_once = !begin.unknown && begin.ms <= 0;
	if (at_once && job->waits)
		return (struct expected_start){.blocked = true};
	bool skipped = job->blocked && slots[-1].ms > 0;
	struct expected_start start = start_at(&begin, !at_once && (skipped || slots[num_slots - 1].unknown));
	occupy(slots, num_slots, job->slots, begin.unknown ? begin : after(begin, &job->duration));
	return start;
}

int expected_start(unsigned num_slots, const struct expected_job *running, size_t num_running,
	const struct expected_job *waiting, size_t num_waiting, struct expected_start *ret)
{
	cleanup_(freep) struct moment *slots = calloc(num_slots + 1, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	unsigned used = 0;
	static const struct moment now;
	for (size_t i = 0; i < num_running; i++)
		for (unsigned k = 0; k < running[i].slots && used < num_slots; k++)
			slots[used++] = after(now, &running[i].duration);
	qsort(slots, num_slots, sizeof(*slots), compare);
	for (size_t i = 0; i < num_waiting; i++)
		ret[i] = i < EXPECTED_START_MAX ? place(slots, num_slots, &waiting[i]) : (struct expected_start){0};
	return 0;
}
