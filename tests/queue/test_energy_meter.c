/* SPDX-License-Identifier: MIT */
#include "queue/runner/energy_meter.h"

#include "base/clock.h"
#include "support/check.h"

#define SECOND_NS (1000 * NS_PER_MS)

static struct energy_meter meter;

static int teardown(void **state)
{
	(void)state;
	energy_meter_finish(&meter);
	return 0;
}

static void read_at(size_t gpu, unsigned second, uint64_t millijoules)
{
	energy_meter_read(&meter, gpu, true, millijoules, second * SECOND_NS);
}

static void assert_power(int64_t milliwatts, int64_t span_ms)
{
	int64_t power = -1, span = -1;
	assert_true(energy_meter_power(&meter, &power, &span));
	assert_int_equal(power, milliwatts);
	assert_int_equal(span, span_ms);
}

static void assert_nothing(void)
{
	int64_t power, span;
	assert_false(energy_meter_power(&meter, &power, &span));
}

static void test_power_is_measured_from_the_first_change_to_the_last(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 1), 0);
	assert_nothing();
	read_at(0, 10, 500000); /* as old as it may be */
	read_at(0, 11, 600000);
	assert_nothing();
	read_at(0, 13, 1200000);
	assert_power(300000, 2000);
	/* The same sample again is not new: the time does not count. */
	read_at(0, 15, 1200000);
	assert_power(300000, 2000);
	read_at(0, 21, 2600000);
	assert_power(200000, 10000);
}

static void test_several_gpus_add_up_and_the_shortest_span_counts(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 2), 0);
	for (unsigned s = 0; s <= 10; s++)
		read_at(0, s, 1000000 + s * 100000);
	assert_nothing();
	for (unsigned s = 3; s <= 9; s++)
		read_at(1, s, s * 50000);
	assert_power(150000, 5000);
}

static void test_counter_that_goes_backwards_gives_no_figure(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 1), 0);
	for (unsigned s = 0; s < 5; s++)
		read_at(0, s, 1000000 + s * 1000);
	assert_power(1000, 3000);
	read_at(0, 5, 7);
	assert_nothing();
	/* Even if the counter is later larger than before. */
	for (unsigned s = 6; s < 9; s++)
		read_at(0, s, 2000000 + s * 1000);
	assert_nothing();
}

static void test_counter_that_is_missing_once_gives_no_figure(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 1), 0);
	for (unsigned s = 0; s < 5; s++)
		read_at(0, s, 1000000 + s * 1000);
	energy_meter_read(&meter, 0, false, 0, 5 * SECOND_NS);
	read_at(0, 6, 2000000);
	read_at(0, 7, 2001000);
	assert_nothing();
}

static void test_counter_of_an_impossible_machine_gives_no_figure(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 1), 0);
	read_at(0, 0, 0);
	read_at(0, 1, 1);
	read_at(0, 2, UINT64_MAX - 1);
	assert_nothing();
}

static void test_meter_without_gpus_or_with_a_gap_reports_nothing(void **state)
{
	(void)state;
	assert_int_equal(energy_meter_init(&meter, 0), 0);
	assert_nothing();
	energy_meter_finish(&meter);
	assert_int_equal(energy_meter_init(&meter, 1), 0);
	for (unsigned s = 0; s < 5; s++)
		read_at(0, s, s + 1);
	energy_meter_spoil(&meter);
	assert_nothing();
	struct energy_meter none = {0};
	energy_meter_read(&none, 3, true, 1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_power_is_measured_from_the_first_change_to_the_last, teardown),
		cmocka_unit_test_teardown(test_several_gpus_add_up_and_the_shortest_span_counts, teardown),
		cmocka_unit_test_teardown(test_counter_that_goes_backwards_gives_no_figure, teardown),
		cmocka_unit_test_teardown(test_counter_that_is_missing_once_gives_no_figure, teardown),
		cmocka_unit_test_teardown(test_counter_of_an_impossible_machine_gives_no_figure, teardown),
		cmocka_unit_test_teardown(test_meter_without_gpus_or_with_a_gap_reports_nothing, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
