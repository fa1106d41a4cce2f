/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cpu_list.h"
#include "support/check.h"

static void formats_as(const char *text, const char *expected)
{
	struct cpu_list l = {0};
	struct text out = {0};
	assert_int_equal(cpu_list_parse(text, &l), 0);
	assert_int_equal(cpu_list_is_empty(&l), *expected == '\0');
	cpu_list_format(&l, &out);
	assert_string_equal(text_string(&out), expected);
	text_finish(&out);
}

static void test_lists_are_read_and_written_as_the_kernel_does(void **state)
{
	(void)state;
	formats_as("", "");
	formats_as("\n", "");
	formats_as("0\n", "0");
	formats_as("0-3,8", "0-3,8");
	formats_as("8,1,0,2-3,62-65,8191", "0-3,8,62-65,8191");
	formats_as("4-4", "4");
}

static void test_invalid_list_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	const char *const wrong[] = {"x", "1-", "-1", "3-1", "1 2", "8192", "99999999999999999999", "1,,2", ","};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct cpu_list l = {0};
		assert_int_equal(cpu_list_parse(wrong[i], &l), -EINVAL);
		assert_true(cpu_list_is_empty(&l));
	}
}

static void test_affinity_can_be_restricted(void **state)
{
	(void)state;
	struct cpu_list all, one = {0}, now;
	assert_int_equal(cpu_list_get_affinity(&all), 0);
	assert_false(cpu_list_is_empty(&all));
	for (unsigned i = 0; cpu_list_is_empty(&one); i++) {
		one.bits[i / 64] = UINT64_C(1) << i % 64;
		cpu_list_intersect(&one, &all);
	}
	assert_int_equal(cpu_list_set_affinity(&one), 0);
	assert_int_equal(cpu_list_get_affinity(&now), 0);
	assert_memory_equal(&now, &one, sizeof(one));
	struct cpu_list none = {0};
	assert_true(cpu_list_set_affinity(&none) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_are_read_and_written_as_the_kernel_does),
		cmocka_unit_test(test_invalid_list_is_refused_and_changes_nothing),
		cmocka_unit_test(test_affinity_can_be_restricted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
