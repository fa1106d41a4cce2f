/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/histogram.h"

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct histogram));
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void test_quantile_of_an_empty_histogram_is_zero(void **state)
{
	assert_int_equal(histogram_quantile(*state, 0.5), 0);
}

static void test_single_value_is_every_quantile(void **state)
{
	histogram_add(*state, 123456789);
	assert_int_equal(histogram_quantile(*state, 0.0), 123456789);
	assert_int_equal(histogram_quantile(*state, 0.5), 123456789);
	assert_int_equal(histogram_quantile(*state, 1.0), 123456789);
}

static void test_a_bucket_is_at_most_a_sixteenth_wide(void **state)
{
	for (uint64_t value = 1; value < UINT64_MAX / 3; value = value * 3 / 2 + 1) {
		struct histogram *h = *state;
		*h = (struct histogram){0};
		histogram_add(h, value);
		histogram_add(h, UINT64_MAX); /* so that max does not help */
		uint64_t said = histogram_quantile(h, 0.25);
		assert_true(said >= value);
		assert_true(said - value <= value / 16);
		assert_true(histogram_quantile(h, 1.0) == UINT64_MAX);
	}
}

static void test_quantiles_of_many_values_are_at_most_7_percent_high(void **state)
{
	struct histogram *h = *state;
	for (uint64_t i = 1; i <= 100000; i++)
		histogram_add(h, i * 1000);
	static const double fractions[] = {0.5, 0.9, 0.99};
	for (int i = 0; i < 3; i++) {
		uint64_t exact = (uint64_t)(fractions[i] * 100000) * 1000;
		uint64_t said = histogram_quantile(h, fractions[i]);
		assert_true(said >= exact);
		assert_true(said <= exact + exact * 7 / 100);
	}
	assert_int_equal(h->max, 100000000);
	assert_int_equal(h->total, 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_quantile_of_an_empty_histogram_is_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(test_single_value_is_every_quantile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_bucket_is_at_most_a_sixteenth_wide, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_quantiles_of_many_values_are_at_most_7_percent_high, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
