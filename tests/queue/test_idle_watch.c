/* SPDX-License-Identifier: MIT */
#include "queue/runner/idle_watch.h"

#include "base/clock.h"
#include "support/check.h"

#define SECOND_NS (1000 * NS_PER_MS)
#define WARN_NS   (60 * SECOND_NS)

static struct idle_watch watch;

static int setup(void **state)
{
	(void)state;
	return idle_watch_make(&watch, 2);
}

static int teardown(void **state)
{
	(void)state;
	idle_watch_finish(&watch);
	return 0;
}

/* percent -1: unknown. */
static enum idle_change read_at(size_t gpu, unsigned second, int percent)
{
	return idle_watch_read(&watch, gpu, WARN_NS,
		&(struct idle_reading){.known = percent >= 0,
			.percent = percent < 0 ? 0 : (unsigned)percent,
			.now_ns = (second + 1000) * SECOND_NS,
			.now_ms = (second + 1) * 1000});
}

/* Every ten seconds, from `from` to before `to`: nothing changes. */
static void read_quietly(size_t gpu, unsigned from, unsigned to, int percent)
{
	for (unsigned s = from; s < to; s += 10)
		assert_int_equal(read_at(gpu, s, percent), IDLE_NO_CHANGE);
}

static void assert_idle_seconds(unsigned seconds)
{
	assert_int_equal(watch.idle_ns / SECOND_NS, seconds);
}

static void test_gpu_is_marked_after_the_whole_time_and_until_it_is_busy(void **state)
{
	(void)state;
	read_quietly(0, 100, 160, 0);
	assert_int_equal(idle_watch_since_ms(&watch), 0);
	assert_idle_seconds(0);
	assert_int_equal(read_at(0, 160, 1), IDLE_MARKED);
	assert_int_equal(idle_watch_since_ms(&watch), 101 * 1000);
	assert_idle_seconds(60);
	read_quietly(0, 170, 200, 0);
	assert_idle_seconds(90);
	/* The activity since the last idle reading is unknown. */
	assert_int_equal(read_at(0, 200, 37), IDLE_UNMARKED);
	assert_idle_seconds(90);
	assert_int_equal(idle_watch_since_ms(&watch), 0);
	read_quietly(0, 210, 270, 0);
	assert_int_equal(read_at(0, 270, 0), IDLE_MARKED);
	assert_idle_seconds(150);
}

static void test_gpu_that_works_in_between_is_not_idle(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 600; s += 50) {
		read_quietly(0, s, s + 50, 0);
		assert_int_equal(read_at(0, s + 45, 2), IDLE_NO_CHANGE);
	}
	assert_idle_seconds(0);
}

static void test_unknown_utilization_is_never_idle(void **state)
{
	(void)state;
	read_quietly(0, 0, 600, -1);
	/* One unknown reading starts a new period. */
	read_quietly(0, 600, 650, 0);
	assert_int_equal(read_at(0, 650, -1), IDLE_NO_CHANGE);
	read_quietly(0, 660, 720, 0);
	assert_int_equal(read_at(0, 720, 0), IDLE_MARKED);
	assert_int_equal(read_at(0, 730, -1), IDLE_UNMARKED);
	assert_idle_seconds(60);
}

static void test_time_without_a_reading_is_not_idle(void **state)
{
	(void)state;
	read_quietly(0, 0, 50, 0);
	assert_int_equal(read_at(0, 500, 0), IDLE_NO_CHANGE);
	assert_idle_seconds(0);
	read_quietly(0, 510, 560, 0);
	assert_int_equal(read_at(0, 560, 0), IDLE_MARKED);
	assert_int_equal(read_at(0, 900, 0), IDLE_UNMARKED);
	assert_idle_seconds(60);
}

static void test_each_gpu_is_watched_separately(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 60; s += 10) {
		read_at(0, s, 0);
		read_at(1, s, 90);
	}
	assert_int_equal(read_at(0, 60, 0), IDLE_MARKED);
	read_quietly(1, 60, 120, 0);
	read_quietly(0, 70, 120, 0);
	assert_int_equal(read_at(1, 120, 0), IDLE_MARKED);
	assert_int_equal(read_at(0, 120, 0), IDLE_NO_CHANGE);
	assert_idle_seconds(120 + 60);
	assert_int_equal(idle_watch_since_ms(&watch), 1000);
	assert_true(idle_watch_reset(&watch));
	assert_false(idle_watch_reset(&watch));
}

static void test_mark_of_an_earlier_runner_stays_until_the_gpu_is_busy(void **state)
{
	(void)state;
	idle_watch_restore(&watch, 1, 1000 * SECOND_NS, 12345);
	assert_int_equal(read_at(1, 5, 0), IDLE_NO_CHANGE);
	assert_int_equal(idle_watch_since_ms(&watch), 12345);
	assert_idle_seconds(5);
	assert_int_equal(read_at(1, 10, 50), IDLE_UNMARKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_gpu_is_marked_after_the_whole_time_and_until_it_is_busy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gpu_that_works_in_between_is_not_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_utilization_is_never_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_without_a_reading_is_not_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_each_gpu_is_watched_separately, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_mark_of_an_earlier_runner_stays_until_the_gpu_is_busy, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
