/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/check.h"

/* Three versions of one struct; the library knows the second. */
struct thing_1 {
	size_t size;
	uint64_t a;
};
struct thing_2 {
	size_t size;
	uint64_t a, b;
};
struct thing_3 {
	size_t size;
	uint64_t a, b, c;
};

static void test_smaller_struct_is_read_with_zeros_for_what_is_missing(void **state)
{
	(void)state;
	struct thing_2 ret = {9, 9, 9};
	const struct thing_1 from = {sizeof(from), 5};
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", NULL), 0);
	assert_int_equal(ret.size, sizeof(ret));
	assert_int_equal(ret.a, 5);
	assert_int_equal(ret.b, 0);
}

static void test_larger_struct_is_read_only_if_what_is_unknown_is_zero(void **state)
{
	(void)state;
	struct gd_error err = {0};
	struct thing_2 ret = {9, 9, 9};
	struct thing_3 from = {sizeof(from), 5, 6, 1};
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", &err), -E2BIG);
	check_contains(err.message, "struct thing has a field set that this version of the library");
	assert_int_equal(ret.a, 9); /* untouched */
	from.c = 0;
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", &err), 0);
	assert_int_equal(ret.size, sizeof(ret));
	assert_int_equal(ret.b, 6);
}

static void test_missing_struct_and_size_that_was_not_set_are_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	struct thing_2 ret, from = {0};
	assert_int_equal(sized_read(&ret, sizeof(ret), NULL, "thing", &err), -EINVAL);
	assert_string_equal(err.message, "struct thing is missing (NULL)");
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", &err), -EINVAL);
	check_contains(err.message, "set it to sizeof(struct thing)");
	from.size = 12; /* half a pointer would be copied */
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", &err), -EINVAL);
	from.size = SIZE_MAX; /* garbage: nothing beyond the struct is read */
	assert_int_equal(sized_read(&ret, sizeof(ret), &from, "thing", &err), -EINVAL);
}

static void test_filling_stays_inside_the_callers_struct_and_says_how_much_is_valid(void **state)
{
	(void)state;
	const struct thing_2 from = {sizeof(from), 5, 6};
	struct thing_3 room;
	memset(&room, 0x5a, sizeof(room));
	sized_write(&room, sizeof(struct thing_1), &from, sizeof(from));
	assert_int_equal(room.size, sizeof(struct thing_1));
	assert_int_equal(room.a, 5);
	assert_true(room.b == 0x5a5a5a5a5a5a5a5a);
	memset(&room, 0x5a, sizeof(room));
	sized_write(&room, sizeof(room), &from, sizeof(from));
	assert_int_equal(room.size, sizeof(from));
	assert_int_equal(room.b, 6);
	assert_int_equal(room.c, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smaller_struct_is_read_with_zeros_for_what_is_missing),
		cmocka_unit_test(test_larger_struct_is_read_only_if_what_is_unknown_is_zero),
		cmocka_unit_test(test_missing_struct_and_size_that_was_not_set_are_refused),
		cmocka_unit_test(test_filling_stays_inside_the_callers_struct_and_says_how_much_is_valid),
	};
	return cmocka_run_group_tests_name("base_sized", tests, NULL, NULL);
}
