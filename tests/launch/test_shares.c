/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_dispatch_launch.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const struct gd_found some[] = {
	{"a", 10, 0, -1},
	{"b", 40, 0, -1},
	{"c", 30, 0, -1},
	{"d", 20, 0, -1},
	{"e", 40, 0, -1},
};

static void assert_order(enum gd_balance balance, const struct gd_found *files, size_t count, const char *expected)
{
	size_t order[16];
	assert_int_equal(gd_queue_order(files, count, balance, order), 0);
	char text[17] = "";
	for (size_t i = 0; i < count; i++)
		text[i] = files[order[i]].path[0];
	assert_string_equal(text, expected);
}

static void test_balance_name_parses_to_the_same_balance(void **state)
{
	(void)state;
	for (int b = GD_BALANCE_LONGEST_FIRST; b <= GD_BALANCE_AS_FOUND; b++) {
		enum gd_balance parsed = (enum gd_balance)9;
		assert_int_equal(gd_balance_parse(gd_balance_name((enum gd_balance)b), &parsed), 0);
		assert_int_equal(parsed, b);
	}
	enum gd_balance untouched = GD_BALANCE_BY_SIZE;
	assert_int_equal(gd_balance_parse("longest", &untouched), -EINVAL);
	assert_int_equal(untouched, GD_BALANCE_BY_SIZE);
}

static void test_workload_sums_sizes_and_known_durations(void **state)
{
	(void)state;
	struct gd_workload w;
	gd_workload_estimate(some, COUNT(some), &w);
	assert_int_equal(w.files, 5);
	assert_int_equal(w.bytes, 140);
	assert_int_equal(w.audio_unknown, 5);
	assert_string_equal(w.largest, "b");
	assert_int_equal(w.largest_bytes, 40);
	assert_string_equal(w.smallest, "a");
	assert_int_equal(w.smallest_bytes, 10);
	const struct gd_found known[] = {{"a", 10, 0, 2.5}, {"b", 0, 0, -1}, {"c", 4, 0, 0.5}};
	gd_workload_estimate(known, COUNT(known), &w);
	assert_true(fabs(w.audio_seconds - 3) < 1e-9);
	assert_int_equal(w.audio_unknown, 1);
	assert_string_equal(w.smallest, "b");
	gd_workload_estimate(NULL, 0, &w);
	assert_int_equal(w.files, 0);
	assert_null(w.largest);
}

static void test_queue_order_follows_the_balance_and_durations_over_sizes(void **state)
{
	(void)state;
	assert_order(GD_BALANCE_LONGEST_FIRST, some, COUNT(some), "becda");
	assert_order(GD_BALANCE_BY_SIZE, some, COUNT(some), "becda");
	assert_order(GD_BALANCE_ROUND_ROBIN, some, COUNT(some), "abcde");
	assert_order(GD_BALANCE_AS_FOUND, some, COUNT(some), "abcde");
	/* A small file may be long: the size counts only where nothing better is known. */
	const struct gd_found mixed[] = {{"a", 100, 0, 10}, {"b", 10, 0, 100}, {"c", 50, 0, -1}, {"d", 5, 0, -1}};
	assert_order(GD_BALANCE_LONGEST_FIRST, mixed, COUNT(mixed), "bcad");
	assert_order(GD_BALANCE_BY_SIZE, mixed, COUNT(mixed), "acbd");
	assert_int_equal(gd_queue_order(some, 1, (enum gd_balance)7, (size_t[1]){0}), -EINVAL);
}

static void assert_shares(enum gd_balance balance, const char *expected)
{
	size_t gpus[COUNT(some)];
	assert_int_equal(gd_share_out(some, COUNT(some), balance, 2, gpus), 0);
	char text[COUNT(some) + 1] = "";
	for (size_t i = 0; i < COUNT(some); i++)
		text[i] = (char)('0' + gpus[i]);
	assert_string_equal(text, expected);
}

static void test_files_are_shared_out_as_the_balance_says(void **state)
{
	(void)state;
	assert_shares(GD_BALANCE_LONGEST_FIRST, "10011"); /* b, c: 70; e, d, a: 70 */
	assert_shares(GD_BALANCE_BY_SIZE, "00011");       /* b e c d a, in turn */
	assert_shares(GD_BALANCE_ROUND_ROBIN, "01010");
	assert_shares(GD_BALANCE_AS_FOUND, "00011");
	size_t gpus[1];
	assert_int_equal(gd_share_out(some, 1, GD_BALANCE_BY_SIZE, 0, gpus), -EINVAL);
	assert_int_equal(gd_share_out(NULL, 0, GD_BALANCE_LONGEST_FIRST, 3, gpus), 0);
}

static void test_share_statistics_give_load_per_gpu_and_imbalance(void **state)
{
	(void)state;
	const size_t gpus[] = {0, 0, 1, 1, 1};
	struct gd_share shares[3];
	double imbalance = gd_share_stats(some, gpus, COUNT(some), 3, shares);
	assert_int_equal(shares[0].files, 2);
	assert_int_equal(shares[0].bytes, 50);
	assert_int_equal(shares[1].bytes, 90);
	assert_int_equal(shares[2].files, 0);
	assert_true(fabs(shares[0].load - 50.0 / 140) < 1e-9);
	assert_true(fabs(imbalance - (90.0 * 3 / 140 - 1)) < 1e-9);
	assert_true(gd_share_stats(NULL, NULL, 0, 3, shares) == 0);
}

/* Longest first is within 4/3 of the best (Graham); dealing out in turn is not. */
static void test_longest_first_is_never_far_from_even(void **state)
{
	(void)state;
	srand(7);
	for (int round = 0; round < 200; round++) {
		struct gd_found files[60];
		size_t gpus[60], num_gpus = 1 + (size_t)rand() % 8, count = 1 + (size_t)rand() % 60;
		double total = 0, longest = 0;
		for (size_t i = 0; i < count; i++) {
			files[i] = (struct gd_found){"x", 1, 0, exp((double)(rand() % 1000) / 150)};
			total += files[i].seconds;
			longest = fmax(longest, files[i].seconds);
		}
		assert_int_equal(gd_share_out(files, count, GD_BALANCE_LONGEST_FIRST, num_gpus, gpus), 0);
		double load[8] = {0}, most = 0;
		for (size_t i = 0; i < count; i++)
			load[gpus[i]] += files[i].seconds;
		for (size_t g = 0; g < num_gpus; g++)
			most = fmax(most, load[g]);
		assert_true(most <= total / (double)num_gpus + longest + 1e-9);
		struct gd_share shares[8];
		double imbalance = gd_share_stats(files, gpus, count, num_gpus, shares);
		assert_true(fabs(imbalance - (most * (double)num_gpus / total - 1)) < 1e-9);
	}
}

static void test_custom_shares_are_queued_in_turn_over_the_gpus(void **state)
{
	(void)state;
	const size_t gpus[] = {2, 2, 2, 0, 1, 0};
	size_t order[6];
	const size_t expected[] = {3, 4, 0, 5, 1, 2};
	assert_int_equal(gd_queue_shares(gpus, 6, 3, order), 0);
	assert_memory_equal(order, expected, sizeof(expected));
	assert_int_equal(gd_queue_shares(gpus, 6, 2, order), -EINVAL);
}

static double by_length(void *context, const char *path)
{
	++*(int *)context;
	return strstr(path, "bad") ? -1 : (double)strlen(path);
}

static void test_only_unknown_durations_are_read(void **state)
{
	(void)state;
	struct gd_found list[] = {{"a", 1, 0, -1}, {"bad", 1, 0, -1}, {"c", 1, 0, 9}};
	struct gd_files files = {.folder = "/f", .count = 3, .files = list};
	int asked = 0;
	assert_int_equal(gd_files_read_seconds(&files, by_length, &asked), 1);
	assert_int_equal(asked, 2);
	assert_true(list[0].seconds == 4 && list[1].seconds == -1 && list[2].seconds == 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_balance_name_parses_to_the_same_balance),
		cmocka_unit_test(test_workload_sums_sizes_and_known_durations),
		cmocka_unit_test(test_queue_order_follows_the_balance_and_durations_over_sizes),
		cmocka_unit_test(test_files_are_shared_out_as_the_balance_says),
		cmocka_unit_test(test_share_statistics_give_load_per_gpu_and_imbalance),
		cmocka_unit_test(test_longest_first_is_never_far_from_even),
		cmocka_unit_test(test_custom_shares_are_queued_in_turn_over_the_gpus),
		cmocka_unit_test(test_only_unknown_durations_are_read),
	};
	return cmocka_run_group_tests_name("launch_shares", tests, NULL, NULL);
}
