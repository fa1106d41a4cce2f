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

/* Files by name and size, without and with seconds. */
#define FILE_OF(name, bytes) (&(struct gd_found){.size = sizeof(struct gd_found), .path = name, .size_bytes = bytes})
#define AUDIO_OF(name, bytes, length)                                                                                  \
	(&(struct gd_found){.size = sizeof(struct gd_found),                                                           \
		.path = name,                                                                                          \
		.size_bytes = bytes,                                                                                   \
		.known = GD_KNOWN_SECONDS,                                                                             \
		.seconds = length})

static const struct gd_found *const some[] = {
	FILE_OF("a", 10),
	FILE_OF("b", 40),
	FILE_OF("c", 30),
	FILE_OF("d", 20),
	FILE_OF("e", 40),
};

static void assert_order(
	enum gd_balance balance, const struct gd_found *const *files, size_t count, const char *expected)
{
	size_t order[16];
	assert_int_equal(gd_balance_order(files, count, balance, order), 0);
	char text[17] = "";
	for (size_t i = 0; i < count; i++)
		text[i] = files[order[i]]->path[0];
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
	gd_files_workload(some, COUNT(some), &w, sizeof(w));
	assert_int_equal(w.files, 5);
	assert_int_equal(w.bytes, 140);
	assert_int_equal(w.audio_unknown, 5);
	assert_string_equal(w.largest, "b");
	assert_int_equal(w.largest_bytes, 40);
	assert_string_equal(w.smallest, "a");
	assert_int_equal(w.smallest_bytes, 10);
	const struct gd_found *const known[] = {AUDIO_OF("a", 10, 2.5), FILE_OF("b", 0), AUDIO_OF("c", 4, 0.5)};
	gd_files_workload(known, COUNT(known), &w, sizeof(w));
	assert_true(fabs(w.audio_seconds - 3) < 1e-9);
	assert_int_equal(w.audio_unknown, 1);
	assert_string_equal(w.smallest, "b");
	gd_files_workload(NULL, 0, &w, sizeof(w));
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
	/* A small file may be long: the size counts only if nothing better is known. */
	const struct gd_found *const mixed[] = {
		AUDIO_OF("a", 100, 10), AUDIO_OF("b", 10, 100), FILE_OF("c", 50), FILE_OF("d", 5)};
	assert_order(GD_BALANCE_LONGEST_FIRST, mixed, COUNT(mixed), "bcad");
	assert_order(GD_BALANCE_BY_SIZE, mixed, COUNT(mixed), "acbd");
	assert_int_equal(gd_balance_order(some, 1, (enum gd_balance)7, (size_t[1]){0}), -EINVAL);
	const struct gd_found *const sizeless[] = {&(struct gd_found){.path = "a"}};
	assert_int_equal(gd_balance_order(sizeless, 1, GD_BALANCE_AS_FOUND, (size_t[1]){0}), -EINVAL);
}

static void assert_shares(enum gd_balance balance, const char *expected)
{
	size_t gpus[COUNT(some)];
	assert_int_equal(gd_balance_share(some, COUNT(some), balance, 2, gpus), 0);
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
	assert_int_equal(gd_balance_share(some, 1, GD_BALANCE_BY_SIZE, 0, gpus), -EINVAL);
	assert_int_equal(gd_balance_share(NULL, 0, GD_BALANCE_LONGEST_FIRST, 3, gpus), 0);
}

static void test_empty_files_are_shared_out_evenly(void **state)
{
	(void)state;
	const struct gd_found *const empty[] = {
		FILE_OF("a", 0), FILE_OF("b", 0), FILE_OF("c", 0), FILE_OF("d", 0), FILE_OF("e", 9), FILE_OF("f", 0)};
	size_t gpus[COUNT(empty)], files[3] = {0};
	assert_int_equal(gd_balance_share(empty, COUNT(empty), GD_BALANCE_LONGEST_FIRST, 3, gpus), 0);
	for (size_t i = 0; i < COUNT(empty); i++)
		files[gpus[i]]++;
	assert_int_equal(files[gpus[4]], 1); /* the nonempty file has its own GPU */
	assert_int_equal(files[0] + files[1] + files[2], 6);
	for (size_t g = 0; g < 3; g++)
		assert_true(files[g] <= 3);
}

static void test_share_statistics_give_load_per_gpu_and_imbalance(void **state)
{
	(void)state;
	const size_t gpus[] = {0, 0, 1, 1, 1};
	struct gd_share shares[3];
	for (size_t g = 0; g < 3; g++)
		assert_int_equal(gd_share_stats(some, gpus, COUNT(some), 3, g, &shares[g], sizeof(shares[g])), 0);
	assert_int_equal(shares[0].files, 2);
	assert_int_equal(shares[0].bytes, 50);
	assert_int_equal(shares[1].bytes, 90);
	assert_int_equal(shares[2].files, 0);
	assert_true(fabs(shares[0].load - 50.0 / 140) < 1e-9);
	assert_true(fabs(shares[0].imbalance - (90.0 * 3 / 140 - 1)) < 1e-9);
	assert_true(shares[2].imbalance == shares[0].imbalance);
	assert_int_equal(gd_share_stats(NULL, NULL, 0, 3, 0, shares, sizeof(*shares)), 0);
	assert_true(shares[0].imbalance == 0 && shares[0].files == 0);
	assert_int_equal(gd_share_stats(some, gpus, COUNT(some), 3, 3, shares, sizeof(*shares)), -EINVAL);
	assert_int_equal(gd_share_stats(some, gpus, COUNT(some), 1, 0, shares, sizeof(*shares)), -EINVAL);
}

/* Longest first is within 4/3 of the best (Graham); round robin is not. */
static void test_longest_first_is_never_far_from_even(void **state)
{
	(void)state;
	srand(7);
	for (int round = 0; round < 200; round++) {
		struct gd_found files[60];
		const struct gd_found *list[60];
		size_t gpus[60], num_gpus = 1 + (size_t)rand() % 8, count = 1 + (size_t)rand() % 60;
		double total = 0, longest = 0;
		for (size_t i = 0; i < count; i++) {
			files[i] = *AUDIO_OF("x", 1, exp((double)(rand() % 1000) / 150));
			list[i] = &files[i];
			total += files[i].seconds;
			longest = fmax(longest, files[i].seconds);
		}
		assert_int_equal(gd_balance_share(list, count, GD_BALANCE_LONGEST_FIRST, num_gpus, gpus), 0);
		double load[8] = {0}, most = 0;
		for (size_t i = 0; i < count; i++)
			load[gpus[i]] += files[i].seconds;
		for (size_t g = 0; g < num_gpus; g++)
			most = fmax(most, load[g]);
		assert_true(most <= total / (double)num_gpus + longest + 1e-9);
		struct gd_share share;
		assert_int_equal(gd_share_stats(list, gpus, count, num_gpus, 0, &share, sizeof(share)), 0);
		assert_true(fabs(share.imbalance - (most * (double)num_gpus / total - 1)) < 1e-9);
	}
}

static void test_custom_shares_are_queued_in_turn_over_the_gpus(void **state)
{
	(void)state;
	const size_t gpus[] = {2, 2, 2, 0, 1, 0};
	size_t order[6];
	const size_t expected[] = {3, 4, 0, 5, 1, 2};
	assert_int_equal(gd_share_order(gpus, 6, 3, order), 0);
	assert_memory_equal(order, expected, sizeof(expected));
	assert_int_equal(gd_share_order(gpus, 6, 2, order), -EINVAL);
}

static int by_length(void *context, const char *path, double *ret)
{
	++*(int *)context;
	*ret = (double)strlen(path);
	return strstr(path, "bad") ? -ENODATA : 0;
}

static void test_only_unknown_durations_are_read(void **state)
{
	(void)state;
	const struct gd_found *const list[] = {FILE_OF("a", 1), FILE_OF("bad", 1), AUDIO_OF("c", 1, 9)};
	struct gd_files files = {.folder = "/f", .count = 3, .files = list};
	int asked = 0;
	assert_int_equal(gd_files_read_seconds(&files, by_length, &asked), 1);
	assert_int_equal(asked, 2);
	assert_true(list[0]->seconds == 4 && list[2]->seconds == 9);
	assert_int_equal(list[0]->known, GD_KNOWN_SECONDS);
	assert_int_equal(list[1]->known, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_balance_name_parses_to_the_same_balance),
		cmocka_unit_test(test_workload_sums_sizes_and_known_durations),
		cmocka_unit_test(test_queue_order_follows_the_balance_and_durations_over_sizes),
		cmocka_unit_test(test_files_are_shared_out_as_the_balance_says),
		cmocka_unit_test(test_empty_files_are_shared_out_evenly),
		cmocka_unit_test(test_share_statistics_give_load_per_gpu_and_imbalance),
		cmocka_unit_test(test_longest_first_is_never_far_from_even),
		cmocka_unit_test(test_custom_shares_are_queued_in_turn_over_the_gpus),
		cmocka_unit_test(test_only_unknown_durations_are_read),
	};
	return cmocka_run_group_tests_name("launch_shares", tests, NULL, NULL);
}
