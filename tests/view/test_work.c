/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/clock.h"
#include "view/model/model.h"

#define S NS_PER_S
#define M (60 * S)

static int setup(void **state)
{
	*state = view_model_create(0);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	view_model_destroy(*state);
	return 0;
}

static void put(struct view_model *m, uint64_t seconds, int64_t total, uint64_t done)
{
	struct view_work w = {.total = total, .done = done, .start_ns = 1000 * S, .time_ns = (1000 + seconds) * S};
	assert_int_equal(view_put_work(m, &w), 0);
}

static uint64_t at(uint64_t seconds)
{
	return (1000 + seconds) * S;
}

static void near(double value, double expected)
{
	if (fabs(value - expected) > fabs(expected) * 1e-6 + 1e-9)
		fail_msg("%g, not %g", value, expected);
}

static void test_nothing_is_known_of_an_empty_model(void **state)
{
	struct view_model *m = *state;
	near(view_rate(m, at(5)), 0);
	assert_int_equal(view_eta_ns(m, at(5)), -1);
	near(view_fraction(m), -1);
	assert_int_equal(view_work(m)->total, -1);
}

static void test_strings_are_copied(void **state)
{
	struct view_model *m = *state;
	char title[] = "gpuq run", note[] = "ending";
	assert_int_equal(view_put_work(m, &(struct view_work){.title = title, .note = note, .total = -1}), 0);
	title[0] = note[0] = 'X';
	assert_string_equal(view_work(m)->title, "gpuq run");
	assert_string_equal(view_work(m)->note, "ending");
}

static void test_putting_equal_work_is_not_a_change(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 10, 1);
	uint64_t version = view_version(m);
	put(m, 1, 10, 1);
	assert_int_equal(view_version(m), version);
	put(m, 2, 10, 2);
	assert_true(view_version(m) > version);
}

static void test_steady_work_gives_its_rate_eta_and_fraction(void **state)
{
	struct view_model *m = *state;
	for (uint64_t t = 0; t <= 300; t++)
		put(m, t, 10000, 20 * t);
	near(view_rate(m, at(300)), 20);
	near((double)view_eta_ns(m, at(300)), 200.0 * S);
	near(view_fraction(m), 0.6);
}

static void test_the_rate_is_that_of_the_last_minute(void **state)
{
	struct view_model *m = *state;
	for (uint64_t t = 0; t <= 600; t++)
		put(m, t, -1, t < 300 ? t : 300 + (t - 300) * 10);
	near(view_rate(m, at(600)), 10);
	assert_int_equal(view_eta_ns(m, at(600)), -1);
}

/* Four GPUs, jobs of ten minutes: between two ends the estimate only decreases. */
static void test_rare_ends_do_not_make_the_estimate_swing(void **state)
{
	struct view_model *m = *state;
	for (uint64_t t = 0; t < 1200; t += 10)
		put(m, t, 40, t < 600 ? 0 : 4);
	near((double)view_eta_ns(m, at(601)), 9 * 600.0 * S - 1.0 * S);
	near((double)view_eta_ns(m, at(800)), 9 * 600.0 * S - 200.0 * S);
	near(view_rate(m, at(800)), 4.0 / 600);
}

static void test_an_overdue_end_slows_the_rate_down(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 40, 0);
	put(m, 600, 40, 4);
	put(m, 6000, 40, 4);
	near(view_rate(m, at(6000)), 4.0 / 6000);
	near((double)view_eta_ns(m, at(6000)), 36 * 1500.0 * S);
}

static void test_work_done_before_the_first_look_does_not_count_for_the_rate(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 2000, 1000);
	put(m, 10, 2000, 1100);
	near(view_rate(m, at(10)), 10);
	near((double)view_eta_ns(m, at(10)), 90.0 * S);
}

static void test_fewer_ends_than_before_restart_the_rate(void **state)
{
	struct view_model *m = *state;
	for (uint64_t t = 0; t <= 30; t++)
		put(m, t, 1000, 10 * t);
	put(m, 31, 1000, 100);
	near(view_rate(m, at(31)), 100 / 31.0);
	put(m, 41, 1000, 120);
	near(view_rate(m, at(41)), 2);
}

static void test_amounts_count_where_they_are_known(void **state)
{
	struct view_model *m = *state;
	for (uint64_t t = 0; t <= 10; t++) {
		struct view_work w = {.total = 4,
			.done = t > 5,
			.total_amount = 1000,
			.done_amount = t > 5 ? 400 : 0,
			.start_ns = at(0),
			.time_ns = at(t)};
		assert_int_equal(view_put_work(m, &w), 0);
	}
	near(view_fraction(m), 0.4);
	/* 400 in 6 s; 600 more take 9 s, of which 4 have passed. */
	near((double)view_eta_ns(m, at(10)), 5.0 * S);
}

static void test_given_eta_is_used_and_counts_down(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 100, 0);
	struct view_work w = {.total = 100, .done = 50, .given_eta_ns = 30 * S, .start_ns = at(0), .time_ns = at(10)};
	assert_int_equal(view_put_work(m, &w), 0);
	near((double)view_eta_ns(m, at(14)), 26.0 * S);
	assert_int_equal(view_eta_ns(m, at(99)), 0);
}

static void test_finished_work_keeps_its_average_rate_and_has_no_eta(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 100, 0);
	put(m, 4, 100, 3);
	struct view_work w = {
		.total = 100, .done = 98, .failed = 2, .start_ns = at(0), .end_ns = at(50), .time_ns = at(50)};
	assert_int_equal(view_put_work(m, &w), 0);
	near(view_rate(m, at(500)), 2);
	assert_int_equal(view_eta_ns(m, at(500)), 0);
	near(view_fraction(m), 1);
}

static void test_fractions_stay_between_0_and_1(void **state)
{
	struct view_model *m = *state;
	put(m, 0, 0, 0);
	near(view_fraction(m), 1);
	put(m, 1, 5, 7);
	near(view_fraction(m), 1);
	assert_int_equal(view_eta_ns(m, at(2)), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_nothing_is_known_of_an_empty_model),
		T(test_strings_are_copied),
		T(test_putting_equal_work_is_not_a_change),
		T(test_steady_work_gives_its_rate_eta_and_fraction),
		T(test_the_rate_is_that_of_the_last_minute),
		T(test_rare_ends_do_not_make_the_estimate_swing),
		T(test_an_overdue_end_slows_the_rate_down),
		T(test_work_done_before_the_first_look_does_not_count_for_the_rate),
		T(test_fewer_ends_than_before_restart_the_rate),
		T(test_amounts_count_where_they_are_known),
		T(test_given_eta_is_used_and_counts_down),
		T(test_finished_work_keeps_its_average_rate_and_has_no_eta),
		T(test_fractions_stay_between_0_and_1),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
