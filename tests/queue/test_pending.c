/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "queue/schedule/pending.h"

static const struct placement_need small = {.memory_bytes = 1, .declared = true, .num_gpus = 1};
static const struct placement_need wide = {.memory_bytes = 1, .declared = true, .num_gpus = 4};

static struct pending *create(void)
{
	struct pending *p = NULL;
	assert_int_equal(pending_create(&p), 0);
	return p;
}

static void test_priority_then_order_across_classes(void **state)
{
	(void)state;
	struct pending *p = create();
	struct pending_job a = {1, 0}, b = {2, 0}, c = {3, 5}, d = {4, -1};
	assert_int_equal(pending_add(p, &d, &small), 0);
	assert_int_equal(pending_add(p, &b, &wide), 0);
	assert_int_equal(pending_add(p, &c, &wide), 0);
	assert_int_equal(pending_add(p, &a, &small), 0);
	struct pending_job *const order[] = {&c, &a, &b, &d};
	for (size_t i = 0; i < 4; i++) {
		assert_ptr_equal(pending_peek(p), order[i]);
		assert_int_equal(pending_count(p), 4 - i);
		pending_remove(p, order[i]);
	}
	assert_null(pending_peek(p));
	pending_destroy(p);
}

static void test_a_skipped_class_waits_for_the_next_pass(void **state)
{
	(void)state;
	struct pending *p = create();
	struct pending_job a = {1, 0}, b = {2, 0}, c = {3, 0}, late = {0, 9};
	assert_int_equal(pending_add(p, &a, &wide) | pending_add(p, &b, &wide) | pending_add(p, &c, &small), 0);
	assert_ptr_equal(pending_peek(p), &a);
	pending_skip(p, UINT64_MAX);
	assert_ptr_equal(pending_peek(p), &c);
	assert_int_equal(pending_add(p, &late, &wide), 0);
	assert_ptr_equal(pending_peek(p), &c);
	pending_skip(p, UINT64_MAX);
	assert_null(pending_peek(p));
	pending_skip(p, UINT64_MAX);
	pending_remove(p, &c); /* cancelled while skipped */
	pending_rewind(p);
	assert_ptr_equal(pending_peek(p), &late);
	assert_int_equal(pending_need(p, &late)->num_gpus, 4);
	pending_destroy(p);
}

static void test_skipping_a_job_skips_those_that_need_more(void **state)
{
	(void)state;
	struct pending *p = create();
	struct placement_need needs[] = {{.memory_bytes = 50, .num_gpus = 1}, {.memory_bytes = 80, .num_gpus = 1},
		{.memory_bytes = 50, .num_gpus = 2}, {.memory_bytes = 50, .num_gpus = 1, .declared = true},
		{.memory_bytes = 40, .num_gpus = 1}, {.memory_bytes = 10, .num_gpus = 1}};
	struct pending_job jobs[6];
	for (size_t i = 0; i < 6; i++) {
		jobs[i] = (struct pending_job){i + 1, 0};
		assert_int_equal(pending_add(p, &jobs[i], &needs[i]), 0);
	}
	pending_skip(p, UINT64_MAX); /* skips 50, and therefore 80 */
	assert_ptr_equal(pending_peek(p), &jobs[2]);
	pending_skip(p, UINT64_MAX);
	assert_ptr_equal(pending_peek(p), &jobs[3]);
	pending_skip(p, UINT64_MAX);
	assert_ptr_equal(pending_peek(p), &jobs[4]);
	pending_skip(p, 10); /* the caller knows that 10 is too much as well */
	assert_null(pending_peek(p));
	pending_rewind(p);
	assert_ptr_equal(pending_peek(p), &jobs[0]);
	pending_destroy(p);
}

static void change_priority(struct pending *p, struct pending_job *job, const struct placement_need *need, int priority)
{
	pending_remove(p, job);
	job->priority = priority;
	assert_int_equal(pending_add(p, job, need), 0);
}

static void test_urgent_goes_to_the_front(void **state)
{
	(void)state;
	struct pending *p = create();
	struct pending_job a = {1, 0}, b = {2, 0}, c = {3, 0};
	assert_int_equal(pending_add(p, &a, &small) | pending_add(p, &b, &wide) | pending_add(p, &c, &wide), 0);
	change_priority(p, &c, &wide, 100);
	assert_ptr_equal(pending_peek(p), &c);
	change_priority(p, &c, &wide, -100);
	assert_ptr_equal(pending_peek(p), &a);
	pending_destroy(p);
}

/* ---- Against a list that is searched from end to end ------------------------ */

#define JOBS 60

struct model_job {
	struct pending_job job;
	struct placement_need need;
	bool waits;
};

#define KINDS 3

static struct model_job *model_first(struct model_job *jobs, const uint64_t *limits)
{
	struct model_job *first = NULL;
	for (int i = 0; i < JOBS; i++) {
		struct model_job *j = &jobs[i];
		if (!j->waits || j->need.memory_bytes >= limits[j->need.num_gpus])
			continue;
		if (!first || j->job.priority > first->job.priority ||
			(j->job.priority == first->job.priority && j->job.order < first->job.order))
			first = j;
	}
	return first;
}

static void no_limits(uint64_t *limits)
{
	for (int i = 0; i < KINDS; i++)
		limits[i] = UINT64_MAX;
}

static void step(struct pending *p, struct model_job *jobs, uint64_t *limits)
{
	struct model_job *j = &jobs[rand() % JOBS];
	switch (rand() % 6) {
	case 0:
	case 1:
		if (!j->waits) {
			j->need = (struct placement_need){
				.num_gpus = (unsigned)rand() % KINDS, .memory_bytes = (uint64_t)(rand() % 20)};
			j->job.priority = rand() % 3;
			assert_int_equal(pending_add(p, &j->job, &j->need), 0);
			j->waits = true;
		}
		break;
	case 2:
		if (j->waits)
			pending_remove(p, &j->job);
		j->waits = false;
		break;
	case 3:
		if (j->waits)
			change_priority(p, &j->job, &j->need, rand() % 3);
		break;
	case 4: {
		struct model_job *first = model_first(jobs, limits);
		uint64_t from = rand() % 2 ? UINT64_MAX : (uint64_t)(rand() % 20);
		pending_skip(p, from);
		if (first)
			limits[first->need.num_gpus] =
				from < first->need.memory_bytes ? from : first->need.memory_bytes;
		break;
	}
	default:
		pending_rewind(p);
		no_limits(limits);
	}
}

static void test_any_sequence_keeps_the_order(void **state)
{
	(void)state;
	srand(11);
	struct pending *p = create();
	struct model_job jobs[JOBS] = {0};
	uint64_t limits[KINDS];
	no_limits(limits);
	for (int i = 0; i < JOBS; i++)
		jobs[i].job.order = (uint64_t)i;
	for (int i = 0; i < 200000; i++) {
		step(p, jobs, limits);
		struct model_job *first = model_first(jobs, limits);
		assert_ptr_equal(pending_peek(p), first ? &first->job : NULL);
	}
	pending_destroy(p);
}

static void test_a_million_jobs_stay_in_order_and_a_pass_asks_once_per_priority(void **state)
{
	(void)state;
	const size_t count = 1000000;
	struct pending *p = create();
	struct pending_job *jobs = calloc(count, sizeof(*jobs));
	assert_non_null(jobs);
	for (size_t i = 0; i < count; i++) {
		struct placement_need need = {.memory_bytes = i % 1000, .num_gpus = 1};
		jobs[i] = (struct pending_job){i, (int32_t)(i % 5)};
		assert_int_equal(pending_add(p, &jobs[i], &need), 0);
	}
	/* A pass in which nothing fits: each job that is tried needs less than the one before. */
	size_t asked = 0;
	for (pending_rewind(p); pending_peek(p); pending_skip(p, UINT64_MAX))
		asked++;
	assert_int_equal(asked, 5);
	pending_rewind(p);
	struct pending_job *last = NULL;
	for (struct pending_job *j; (j = pending_peek(p)); last = j) {
		if (last)
			assert_true(last->priority > j->priority ||
				    (last->priority == j->priority && last->order < j->order));
		pending_remove(p, j);
	}
	assert_int_equal(pending_count(p), 0);
	pending_destroy(p);
	free(jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_priority_then_order_across_classes),
		cmocka_unit_test(test_a_skipped_class_waits_for_the_next_pass),
		cmocka_unit_test(test_skipping_a_job_skips_those_that_need_more),
		cmocka_unit_test(test_urgent_goes_to_the_front),
		cmocka_unit_test(test_any_sequence_keeps_the_order),
		cmocka_unit_test(test_a_million_jobs_stay_in_order_and_a_pass_asks_once_per_priority),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
