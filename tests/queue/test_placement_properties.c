/* SPDX-License-Identifier: MIT */
/*
 * Random machines with random jobs, run step by step through pending, ledger and placement, like the runner.
 * Invariants: promises never exceed a card, and no job waits forever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "queue/schedule/pending.h"
#include "support/gpu_pointers.h"

#define GPUS    5
#define RUNNING 64
#define LONGEST 12 /* steps that a job runs */
#define MB(n)   ((uint64_t)(n)*UNITS_MB)
#define CARD    MB(24000)
#define EVER    UINT64_MAX

struct waiting_job {
	struct pending_job waits; /* its first member */
	struct waiting_job *next_waiting, **waiting_link;
	uint64_t id;
	uint64_t first_since; /* the step in which it became the first of all */
	int64_t pid;
	uint64_t need;
	bool declared;
	bool foreign;
	unsigned ends;
	unsigned started;
	uint64_t uses;
	int gpus[GPUS];
	size_t num_gpus;
};

struct random_box {
	unsigned seed;
	unsigned step;
	size_t num_gpus;
	bool attributable;
	unsigned jobs_per_gpu;
	struct waiting_job *running[RUNNING];
	size_t num_running;
	uint64_t next_id;
	uint64_t others[GPUS]; /* used by unknown processes */
	struct pending *pending;
	struct waiting_job *waiting; /* the same, as a list */
	struct placement_reservation reservation;
	/* The driver's last answer. */
	struct gd_gpu gpus[GPUS];
	struct gd_gpu_process processes[GPUS][RUNNING + 1];
	struct ledger_note notes[GPUS];
	uint64_t starts;
	uint64_t longest_wait;
};

/* Our own generator: the same numbers on every machine. */
static unsigned draw(struct random_box *b, unsigned below)
{
	b->seed = b->seed * 1664525u + 1013904223u;
	return (b->seed >> 8) % below;
}

static bool is_on(const struct waiting_job *j, size_t gpu)
{
	for (size_t i = 0; i < j->num_gpus; i++)
		if ((size_t)j->gpus[i] == gpu)
			return true;
	return false;
}

/* ---- The machine --------------------------------------------------------------- */

static void sample(struct random_box *b)
{
	for (size_t g = 0; g < b->num_gpus; g++) {
		uint64_t used = b->others[g];
		size_t n = 0;
		bool any = false;
		if (b->others[g])
			b->processes[g][n++] = (struct gd_gpu_process){
				.pid = 9999, .memory_bytes = b->others[g], .memory_known = b->attributable};
		for (size_t i = 0; i < b->num_running; i++) {
			const struct waiting_job *j = b->running[i];
			if (!is_on(j, g))
				continue;
			any = true;
			used += j->uses;
			if (j->uses)
				b->processes[g][n++] = (struct gd_gpu_process){
					.pid = j->pid, .memory_bytes = j->uses, .memory_known = b->attributable};
		}
		/* Jobs keep their promises; then no card is ever overfull. */
		if (used > CARD)
			fail_msg("GPU %zu is overfull in step %u", g, b->step);
		b->gpus[g] = (struct gd_gpu){
			.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES,
			.vendor = GD_VENDOR_NVIDIA,
			.index = (int)g,
			.mig_index = -1,
			.memory_total_bytes = CARD,
			.memory_free_bytes = CARD - used,
			.processes = process_pointers(b->processes[g], n),
			.num_processes = n,
		};
		ledger_watch_baseline(&b->notes[g], &b->gpus[g], any, UINT64_MAX);
	}
}

static void grow_and_end(struct random_box *b)
{
	for (size_t i = 0; i < b->num_running;) {
		struct waiting_job *j = b->running[i];
		if (b->step < j->ends) {
			uint64_t more = j->uses + j->need / (1 + draw(b, 6));
			j->uses = more < j->need ? more : j->need;
			i++;
			continue;
		}
		b->running[i] = b->running[--b->num_running];
		free(j);
	}
}

/* ---- The runner ---------------------------------------------------------------- */

static void build(const struct random_box *b, struct ledger *l)
{
	struct ledger_job jobs[RUNNING];
	for (size_t i = 0; i < b->num_running; i++) {
		const struct waiting_job *j = b->running[i];
		jobs[i] = (struct ledger_job){
			.id = j->id,
			.foreign = j->foreign,
			.declared = j->declared,
			.settled = j->uses == j->need,
			.promised_bytes = j->need,
			.gpus = j->gpus,
			.num_gpus = j->num_gpus,
			.pids = &j->pid,
			.num_pids = 1,
		};
	}
	struct ledger_input in = {
		.gpus = gpu_pointers(b->gpus, b->num_gpus),
		.notes = b->notes,
		.num_gpus = b->num_gpus,
		.jobs = jobs,
		.num_jobs = b->num_running,
		.jobs_per_gpu = b->jobs_per_gpu,
	};
	assert_int_equal(ledger_build(l, &in), 0);
}

/* The invariants of each card after each start. */
static void check_promises(const struct random_box *b)
{
	for (size_t g = 0; g < b->num_gpus; g++) {
		uint64_t promised = b->others[g];
		unsigned jobs = 0, growing = 0;
		for (size_t i = 0; i < b->num_running; i++) {
			const struct waiting_job *j = b->running[i];
			if (!is_on(j, g))
				continue;
			promised += j->need;
			jobs += !j->foreign;
			growing += !j->declared && j->uses < j->need;
		}
		if (promised > CARD)
			fail_msg("GPU %zu is promised %llu MB in step %u", g, (unsigned long long)(promised / UNITS_MB),
				b->step);
		assert_true(!b->jobs_per_gpu || jobs <= b->jobs_per_gpu);
		assert_true(growing <= 1);
	}
}

static void start(struct random_box *b, struct waiting_job *j, const int *gpus, size_t num_gpus)
{
	memcpy(j->gpus, gpus, num_gpus * sizeof(*gpus));
	j->num_gpus = num_gpus;
	for (size_t i = 0; i < num_gpus; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(gpus[i], gpus[k]);
	j->started = b->step;
	j->ends = b->step + 1 + draw(b, LONGEST);
	j->uses = 0;
	b->running[b->num_running++] = j;
	b->starts++;
	if (j->first_since != EVER && b->step - j->first_since > b->longest_wait)
		b->longest_wait = b->step - j->first_since;
	check_promises(b);
}

/* A pass tries few jobs; it must not have skipped one that fits. */
static void check_none_was_passed_over(const struct random_box *b, const struct ledger *l)
{
	int gpus[GPUS];
	for (const struct waiting_job *j = b->waiting; j; j = j->next_waiting) {
		const struct placement_need *need = pending_need(b->pending, &j->waits);
		if (placement_choose(l, j->id, need, &b->reservation, gpus, NULL) == 0)
			fail_msg("job %llu was passed over in step %u", (unsigned long long)j->id, b->step);
	}
}

static void pass(struct random_box *b)
{
	struct ledger l = {0};
	build(b, &l);
	pending_rewind(b->pending);
	placement_rewind(&b->reservation);
	struct waiting_job *first = (struct waiting_job *)pending_peek(b->pending);
	if (first && first->first_since == EVER)
		first->first_since = b->step;
	for (struct waiting_job *j; b->num_running < RUNNING && (j = (struct waiting_job *)pending_peek(b->pending));) {
		const struct placement_need *need = pending_need(b->pending, &j->waits);
		int gpus[GPUS];
		int r = placement_choose(&l, j->id, need, &b->reservation, gpus, NULL);
		if (r == 0) {
			size_t count = need->num_gpus;
			pending_remove(b->pending, &j->waits);
			*j->waiting_link = j->next_waiting;
			if (j->next_waiting)
				j->next_waiting->waiting_link = j->waiting_link;
			start(b, j, gpus, count);
			ledger_add(&l, &(struct ledger_job){.id = j->id,
					       .declared = j->declared,
					       .promised_bytes = j->need,
					       .gpus = j->gpus,
					       .num_gpus = count});
			continue;
		}
		assert_int_equal(r, -EAGAIN);
		if (!b->reservation.active)
			assert_int_equal(placement_reserve(&b->reservation, &l, j->id, need), 0);
		pending_skip(b->pending, placement_beyond(&l, need, &b->reservation));
	}
	if (b->num_running < RUNNING)
		check_none_was_passed_over(b, &l);
	ledger_finish(&l);
}

static void submit(struct random_box *b, uint64_t need, unsigned num_gpus, bool declared)
{
	struct waiting_job *j = calloc(1, sizeof(*j));
	assert_non_null(j);
	j->id = b->next_id++;
	j->pid = (int64_t)j->id + 10000;
	j->waits.order = j->id;
	j->need = need;
	j->declared = declared;
	j->first_since = EVER;
	struct placement_need n = {.memory_bytes = need, .declared = declared, .num_gpus = num_gpus};
	assert_int_equal(pending_add(b->pending, &j->waits, &n), 0);
	j->next_waiting = b->waiting;
	j->waiting_link = &b->waiting;
	if (j->next_waiting)
		j->next_waiting->waiting_link = &j->next_waiting;
	b->waiting = j;
}

static void box_init(struct random_box *b, unsigned seed)
{
	*b = (struct random_box){.seed = seed * 2654435761u + 1};
	b->num_gpus = 1 + draw(b, GPUS);
	b->attributable = draw(b, 2);
	b->jobs_per_gpu = draw(b, 4);
	b->next_id = 1;
	assert_int_equal(pending_create(&b->pending), 0);
}

static void box_finish(struct random_box *b)
{
	for (size_t i = 0; i < b->num_running; i++)
		free(b->running[i]);
	pending_rewind(b->pending);
	for (struct pending_job *j; (j = pending_peek(b->pending));) {
		pending_remove(b->pending, j);
		free((struct waiting_job *)j);
	}
	pending_destroy(b->pending);
	placement_reservation_finish(&b->reservation);
}

static void test_memory_of_a_card_is_never_promised_twice(void **state)
{
	(void)state;
	uint64_t starts = 0;
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct random_box b;
		box_init(&b, seed);
		for (size_t g = 0; g < b.num_gpus; g++)
			b.others[g] = draw(&b, 2) ? MB(draw(&b, 12000)) : 0;
		sample(&b);
		for (b.step = 0; b.step < 150; b.step++) {
			for (unsigned n = draw(&b, 4); n > 0; n--)
				submit(&b, MB(500 + draw(&b, 11) * 1000), 1 + draw(&b, (unsigned)b.num_gpus),
					draw(&b, 2));
			grow_and_end(&b);
			/* Others may leave at any time, and the sample may be old. */
			if (draw(&b, 40) == 0)
				b.others[draw(&b, (unsigned)b.num_gpus)] = 0;
			if (draw(&b, 3))
				sample(&b);
			pass(&b);
		}
		starts += b.starts;
		box_finish(&b);
	}
	/* Without starts the invariants would hold trivially. */
	assert_true(starts > 300 * 40);
}

static void test_large_job_starts_although_small_jobs_keep_coming(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct random_box b;
		box_init(&b, seed);
		for (b.step = 0; b.step < 200; b.step++) {
			while (pending_count(b.pending) < 40) {
				bool wide = draw(&b, 20) == 0;
				submit(&b, wide ? MB(20000) : MB(500 + draw(&b, 5) * 500),
					wide ? (unsigned)b.num_gpus : 1, true);
			}
			grow_and_end(&b);
			sample(&b);
			pass(&b);
		}
		/* Its GPUs drain from the moment it is the first. */
		if (b.longest_wait > LONGEST + 1)
			fail_msg("seed %u: the first job waited %llu steps", seed, (unsigned long long)b.longest_wait);
		assert_true(b.starts > 20);
		box_finish(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_of_a_card_is_never_promised_twice),
		cmocka_unit_test(test_large_job_starts_although_small_jobs_keep_coming),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
