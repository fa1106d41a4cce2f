/* SPDX-License-Identifier: MIT */
/* Durations of earlier runs: which jobs are similar, and the estimate for the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "queue/schedule/run_times.h"

static struct job job_of(const char *name, const char *command)
{
	return (struct job){.name = name, .command = command, .command_size = (uint32_t)strlen(command)};
}

static void add(struct run_times *d, const char *name, const char *command, int64_t ms)
{
	struct job job = job_of(name, command);
	run_times_add(d, &job, ms);
}

static struct duration_estimate estimate(struct run_times *d, const char *name, const char *command)
{
	struct job job = job_of(name, command);
	return run_times_estimate(d, &job);
}

static int create(void **state)
{
	*state = run_times_create();
	return *state ? 0 : -1;
}

static int destroy(void **state)
{
	run_times_destroy(*state);
	return 0;
}

static void test_commands_that_differ_in_numbers_are_similar(void **state)
{
	struct run_times *d = *state;
	add(d, NULL, "train.py --lr 0.1 --seed 7", 100);
	assert_int_equal(estimate(d, NULL, "train.py --lr 3e-4 --seed 12").samples, 1);
	assert_int_equal(estimate(d, NULL, "train.py --lr 1 --seed 1234567").samples, 1);
	assert_int_equal(estimate(d, NULL, "train.py --lr 1.5E+3 --seed 0").samples, 1);
	assert_int_equal(estimate(d, NULL, "train.py --lr x --seed 7").samples, 0);
	assert_int_equal(estimate(d, NULL, "train.py --lr 1.x --seed 7").samples, 0);
	assert_int_equal(estimate(d, NULL, "eval.py --lr 0.1 --seed 7").samples, 0);
	assert_int_equal(estimate(d, NULL, "").samples, 0);
}

static void test_the_name_counts_first_and_the_command_where_it_has_no_data(void **state)
{
	struct run_times *d = *state;
	add(d, "big", "run", 1000);
	add(d, "small", "run", 10);
	assert_true(estimate(d, "big", "another").median_ms == 1000);
	assert_true(estimate(d, "small", "run").median_ms == 10);
	assert_int_equal(estimate(d, "new", "run").samples, 2);
	assert_true(estimate(d, "new", "run").median_ms == 505);
	/* A command that equals a name is different. */
	assert_int_equal(estimate(d, NULL, "big").samples, 0);
}

static void test_median_and_spread_have_known_values(void **state)
{
	struct run_times *d = *state;
	for (int i = 10; i >= 0; i--)
		add(d, NULL, "a", 100 * i);
	struct duration_estimate e = estimate(d, NULL, "a");
	assert_int_equal(e.samples, 11);
	assert_true(e.low_ms == 100 && e.median_ms == 500 && e.high_ms == 900);
	add(d, NULL, "b", 60);
	e = estimate(d, NULL, "b");
	assert_true(e.low_ms == 30 && e.median_ms == 60 && e.high_ms == 120);
}

static void test_only_the_last_samples_count(void **state)
{
	struct run_times *d = *state;
	for (int i = 0; i < 100; i++)
		add(d, NULL, "a", 5000);
	for (int i = 0; i < RUN_TIMES_SAMPLES; i++)
		add(d, NULL, "a", 10);
	struct duration_estimate e = estimate(d, NULL, "a");
	assert_int_equal(e.samples, RUN_TIMES_SAMPLES);
	assert_true(e.low_ms == 10 && e.high_ms == 10);
}

static void test_estimated_remaining_time_depends_on_the_elapsed_time(void **state)
{
	struct run_times *d = *state;
	struct job job = job_of(NULL, "a");
	add(d, NULL, "a", 100);
	add(d, NULL, "a", 200);
	add(d, NULL, "a", 300);
	struct duration_estimate e = run_times_remaining(d, &job, 150);
	assert_int_equal(e.samples, 2);
	assert_true(e.median_ms == 100);
	e = run_times_remaining(d, &job, 250);
	assert_true(e.samples == 1 && e.low_ms == 25 && e.median_ms == 50 && e.high_ms == 100);
	e = run_times_remaining(d, &job, 400); /* overdue */
	assert_true(e.samples == 1 && e.low_ms == 0 && e.median_ms == 200 && e.high_ms == 400);
	struct job other = job_of(NULL, "b");
	assert_int_equal(run_times_remaining(d, &other, 400).samples, 0);
}

static void test_only_attempts_that_completed_are_learned(void **state)
{
	struct run_times *d = *state;
	struct job_attempt attempts[] = {
		{.state = JOB_FAILED, .duration_ms = 1},
		{.state = JOB_CANCELLED, .duration_ms = 2, .earlier = &attempts[0]},
		{.state = JOB_COMPLETED, .duration_ms = -1, .earlier = &attempts[1]},
		{.state = JOB_COMPLETED, .duration_ms = 40, .earlier = &attempts[2]},
		{.state = JOB_RUNNING, .duration_ms = -1, .earlier = &attempts[3]},
	};
	struct job job = job_of(NULL, "a");
	job.attempts = &attempts[4];
	run_times_add_job(d, &job);
	struct duration_estimate e = run_times_estimate(d, &job);
	assert_true(e.samples == 1 && e.median_ms == 40);
}

static void test_many_kinds_of_jobs_displace_old_ones_only(void **state)
{
	struct run_times *d = *state;
	char command[32];
	for (int i = 0; i < RUN_TIMES_KINDS * 4; i++) {
		/* Letters, because all numbers count as equal. */
		snprintf(command, sizeof(command), "%c%c%c%c", 'a' + i % 16, 'a' + i / 16 % 16, 'a' + i / 256 % 16,
			'a' + i / 4096);
		add(d, NULL, command, i);
		assert_int_equal(estimate(d, NULL, command).samples, 1);
		add(d, NULL, "always there", 7);
	}
	assert_int_equal(estimate(d, NULL, "always there").samples, RUN_TIMES_SAMPLES);
	assert_int_equal(estimate(d, NULL, "aaaa").samples, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)
	const struct CMUnitTest tests[] = {
		TEST(test_commands_that_differ_in_numbers_are_similar),
		TEST(test_the_name_counts_first_and_the_command_where_it_has_no_data),
		TEST(test_median_and_spread_have_known_values),
		TEST(test_only_the_last_samples_count),
		TEST(test_estimated_remaining_time_depends_on_the_elapsed_time),
		TEST(test_only_attempts_that_completed_are_learned),
		TEST(test_many_kinds_of_jobs_displace_old_ones_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
