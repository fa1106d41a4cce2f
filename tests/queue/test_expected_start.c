/* SPDX-License-Identifier: MIT */
/* When waiting jobs are expected to start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "queue/schedule/expected_start.h"

/* A duration without spread, as of many runs that all took equally long. */
static struct expected_job exactly(unsigned slots, double ms)
{
	return (struct expected_job){
		.slots = slots, .duration = {.samples = 16, .low_ms = ms, .median_ms = ms, .high_ms = ms}};
}

static struct expected_job unknown(unsigned slots)
{
	return (struct expected_job){.slots = slots};
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_jobs_start_in_order_as_slots_become_free(void **state)
{
	(void)state;
	struct expected_job running[] = {exactly(1, 100), exactly(1, 30)};
	struct expected_job waiting[] = {exactly(1, 50), exactly(1, 50), exactly(1, 1), exactly(0, 5)};
	struct expected_start s[COUNT(waiting)];
	assert_int_equal(expected_start(2, running, 2, waiting, COUNT(waiting), s), 0);
	assert_true(s[0].known && s[0].median_ms == 30);  /* after the second one */
	assert_true(s[1].known && s[1].median_ms == 80);  /* after the first that waited */
	assert_true(s[2].known && s[2].median_ms == 100); /* after the first one */
	assert_true(s[3].known && s[3].median_ms == 0);   /* needs no slot */
	for (size_t i = 0; i < COUNT(waiting); i++)
		assert_true(s[i].low_ms == s[i].median_ms && s[i].high_ms == s[i].median_ms && !s[i].at_most);
}

static void test_job_with_several_slots_waits_for_all_of_them(void **state)
{
	(void)state;
	struct expected_job running[] = {exactly(2, 100), exactly(1, 30)};
	struct expected_job waiting[] = {exactly(2, 10), exactly(3, 10), exactly(1, 1)};
	struct expected_start s[COUNT(waiting)];
	assert_int_equal(expected_start(4, running, 2, waiting, COUNT(waiting), s), 0);
	assert_true(s[0].median_ms == 30); /* the free slot, and that of the second job */
	assert_true(s[1].median_ms == 100);
	assert_true(s[2].median_ms == 100); /* the fourth slot */
	struct expected_job too_many = exactly(5, 10);
	assert_int_equal(expected_start(4, running, 2, &too_many, 1, s), 0);
	assert_false(s[0].known);
	assert_int_equal(expected_start(0, NULL, 0, waiting, 1, s), 0);
	assert_false(s[0].known);
}

static void test_spread_grows_with_each_job_in_front(void **state)
{
	(void)state;
	struct expected_job job = {
		.slots = 1, .duration = {.samples = 16, .low_ms = 80, .median_ms = 100, .high_ms = 120}};
	struct expected_job waiting[5] = {job, job, job, job, job};
	struct expected_start s[COUNT(waiting)];
	assert_int_equal(expected_start(1, &job, 1, waiting, COUNT(waiting), s), 0);
	/* The root of 20² + 5²: the spread between runs, and the uncertainty of a median of 16 runs. */
	assert_true(s[0].median_ms == 100 && s[0].high_ms > 120.6 && s[0].high_ms < 120.7);
	for (size_t i = 1; i < COUNT(waiting); i++) {
		assert_true(s[i].median_ms == 100. * (double)(i + 1));
		assert_true(s[i].high_ms - s[i].median_ms > s[i - 1].high_ms - s[i - 1].median_ms);
		assert_true(s[i].high_ms - s[i].median_ms < 20. * (double)(i + 1));
		assert_true(s[i].low_ms >= 0);
	}
}

static void test_unknown_durations_are_not_made_up(void **state)
{
	(void)state;
	struct expected_job running[] = {unknown(1), exactly(1, 40)};
	struct expected_job waiting[] = {exactly(1, 10), unknown(1), exactly(1, 10)};
	struct expected_start s[COUNT(waiting)];
	assert_int_equal(expected_start(2, running, 2, waiting, COUNT(waiting), s), 0);
	assert_true(s[0].known && s[0].median_ms == 40 && s[0].at_most);
	assert_true(s[1].known && s[1].median_ms == 50 && s[1].at_most);
	assert_false(s[2].known); /* all slots are held by jobs with unknown durations */
	assert_int_equal(expected_start(1, running, 1, waiting, 1, s), 0);
	assert_false(s[0].known);
	/* A free slot can be used, whatever is known of the others. */
	assert_int_equal(expected_start(2, running, 1, waiting, 1, s), 0);
	assert_true(s[0].known && s[0].median_ms == 0 && !s[0].at_most);
}

static struct expected_job waits(unsigned slots, double ms, unsigned blocked)
{
	struct expected_job job = exactly(slots, ms);
	job.waits = true;
	job.blocked = blocked;
	return job;
}

static void test_slots_that_others_block_are_not_free(void **state)
{
	(void)state;
	struct expected_job running[] = {exactly(1, 100), exactly(1, 30)};
	/* The third slot seems to be free. */
	struct expected_job waiting[] = {waits(1, 50, 1), waits(3, 50, 1), waits(1, 50, 0), waits(1, 50, 1)};
	struct expected_start s[COUNT(waiting)];
	assert_int_equal(expected_start(3, running, 2, waiting, COUNT(waiting), s), 0);
	assert_true(s[0].known && s[0].median_ms == 30 && !s[0].at_most);
	assert_true(!s[1].known && s[1].blocked);
	assert_true(!s[2].known && s[2].blocked); /* it would start now if this slot were free */
	assert_true(s[3].known && s[3].median_ms == 80);
	/* If all slots have jobs, the blocked one is not known: it may be the last. */
	assert_int_equal(expected_start(2, running, 2, waiting, 1, s), 0);
	assert_true(s[0].known && s[0].median_ms == 100 && s[0].at_most);
}

static void test_only_the_first_jobs_are_estimated(void **state)
{
	(void)state;
	enum { MANY = EXPECTED_START_MAX + 10 };
	struct expected_job *waiting = calloc(MANY, sizeof(*waiting));
	struct expected_start *s = calloc(MANY, sizeof(*s));
	assert_true(waiting && s);
	for (size_t i = 0; i < MANY; i++)
		waiting[i] = exactly(1, 10);
	assert_int_equal(expected_start(4, NULL, 0, waiting, MANY, s), 0);
	for (size_t i = 0; i < EXPECTED_START_MAX; i++)
		assert_true(s[i].known && s[i].median_ms == 10. * (double)(i / 4));
	assert_false(s[EXPECTED_START_MAX].known);
	free(waiting);
	free(s);
}

/* The same jobs, placed by definition: slot by slot, without sorting. */
static void test_random_queues_agree_with_a_plain_simulation(void **state)
{
	(void)state;
	srand(1);
	for (int round = 0; round < 300; round++) {
		enum { SLOTS = 6, JOBS = 40 };
		double free_ms[SLOTS] = {0};
		struct expected_job waiting[JOBS];
		struct expected_start s[JOBS];
		for (size_t i = 0; i < JOBS; i++)
			waiting[i] = exactly(1 + (unsigned)rand() % SLOTS, rand() % 100);
		assert_int_equal(expected_start(SLOTS, NULL, 0, waiting, JOBS, s), 0);
		for (size_t i = 0; i < JOBS; i++) {
			int chosen[SLOTS];
			double begin = 0;
			for (unsigned k = 0; k < waiting[i].slots; k++) {
				int best = -1;
				for (int slot = 0; slot < SLOTS; slot++)
					if (free_ms[slot] >= 0 && (best < 0 || free_ms[slot] < free_ms[best]))
						best = slot;
				begin = free_ms[best];
				chosen[k] = best;
				free_ms[best] = -1;
			}
			for (unsigned k = 0; k < waiting[i].slots; k++)
				free_ms[chosen[k]] = begin + waiting[i].duration.median_ms;
			assert_true(s[i].known && s[i].median_ms == begin);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_start_in_order_as_slots_become_free),
		cmocka_unit_test(test_job_with_several_slots_waits_for_all_of_them),
		cmocka_unit_test(test_spread_grows_with_each_job_in_front),
		cmocka_unit_test(test_unknown_durations_are_not_made_up),
		cmocka_unit_test(test_slots_that_others_block_are_not_free),
		cmocka_unit_test(test_only_the_first_jobs_are_estimated),
		cmocka_unit_test(test_random_queues_agree_with_a_plain_simulation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
