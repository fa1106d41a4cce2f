/* SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include "support/check.h"

static void test_known_values(void **state)
{
	(void)state;
	/* From RFC 3720, B.4; the second is the usual check value. */
	unsigned char zeros[32] = {0};
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, zeros, sizeof(zeros)), 0x8a9136aa);
	assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_portable(0, zeros, sizeof(zeros)), 0x8a9136aa);
}

static void test_pieces_of_any_length_add_up_to_the_whole(void **state)
{
	(void)state;
	unsigned char bytes[67];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 37 + 11);
	for (size_t begin = 0; begin < 8; begin++)
		for (size_t end = begin; end <= sizeof(bytes); end++) {
			uint32_t whole = crc32c(0, bytes + begin, end - begin);
			assert_int_equal(crc32c_portable(0, bytes + begin, end - begin), whole);
			size_t half = (end - begin) / 3;
			uint32_t first = crc32c(0, bytes + begin, half);
			assert_int_equal(crc32c(first, bytes + begin + half, end - begin - half), whole);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_pieces_of_any_length_add_up_to_the_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
