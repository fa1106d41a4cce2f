/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"

/* Options for AddressSanitizer: an allocation that is too large returns NULL, as without the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_elements_stay_while_the_array_grows(void **state)
{
	(void)state;
	uint64_t *numbers = NULL;
	size_t capacity = 0, moves = 0;
	for (uint64_t i = 0; i < 10000; i++) {
		size_t before = capacity;
		assert_int_equal(array_reserve(numbers, &capacity, i + 1), 0);
		assert_true(capacity > i);
		moves += capacity != before;
		numbers[i] = i * i;
	}
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(numbers[i] == i * i);
	/* The capacity doubles each time, and 10,000 is less than 2^14. */
	assert_true(moves <= 14);
	free(numbers);
}

static void test_a_large_reserve_is_made_at_once_and_a_satisfied_one_changes_nothing(void **state)
{
	(void)state;
	short *array = NULL;
	size_t capacity = 0;
	assert_int_equal(array_reserve(array, &capacity, 0), 0);
	assert_null(array);
	assert_int_equal(array_reserve(array, &capacity, 1000), 0);
	assert_int_equal(capacity, 1000);
	const short *before = array;
	assert_int_equal(array_reserve(array, &capacity, 1000), 0);
	assert_ptr_equal(array, before);
	assert_int_equal(capacity, 1000);
	free(array);
}

static void test_reserve_beyond_memory_fails_and_changes_nothing(void **state)
{
	(void)state;
	uint64_t *array = NULL;
	size_t capacity = 0;
	assert_int_equal(array_reserve(array, &capacity, 3), 0);
	uint64_t *before = array;
	size_t had = capacity;
	assert_int_equal(array_reserve(array, &capacity, SIZE_MAX), -ENOMEM);
	assert_int_equal(array_reserve(array, &capacity, SIZE_MAX / sizeof(*array)), -ENOMEM);
	assert_ptr_equal(array, before);
	assert_int_equal(capacity, had);
	free(array);
}

static int compare_ints(const void *key, const void *element)
{
	int k = *(const int *)key, e = *(const int *)element;
	return (k > e) - (k < e);
}

static void test_lower_bound_agrees_with_a_scan(void **state)
{
	(void)state;
	int sorted[40];
	for (size_t count = 0; count <= 40; count++) {
		/* Each number twice, with gaps between them. */
		for (size_t i = 0; i < count; i++)
			sorted[i] = (int)(i / 2) * 3;
		for (int key = -2; key < 65; key++) {
			size_t scan = 0;
			while (scan < count && sorted[scan] < key)
				scan++;
			assert_int_equal(array_lower_bound(&key, sorted, count, sizeof(*sorted), compare_ints), scan);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements_stay_while_the_array_grows),
		cmocka_unit_test(test_a_large_reserve_is_made_at_once_and_a_satisfied_one_changes_nothing),
		cmocka_unit_test(test_reserve_beyond_memory_fails_and_changes_nothing),
		cmocka_unit_test(test_lower_bound_agrees_with_a_scan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
