/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_put.h"
#include "base/utf8.h"

#define FFFD "\xEF\xBF\xBD"

static void test_objects_and_arrays_nest_with_their_commas(void **state)
{
	(void)state;
	struct text t = {0};
	json_open(&t, NULL, '[');
	json_open(&t, NULL, '{');
	json_open(&t, "a", '[');
	json_close(&t, ']');
	json_open(&t, "b", '{');
	json_close(&t, '}');
	json_put_bool(&t, "c", true);
	json_close(&t, '}');
	json_put_null(&t, NULL);
	json_open(&t, NULL, '[');
	json_put_int(&t, NULL, -1);
	json_put_int(&t, NULL, INT64_MIN);
	json_put_seconds(&t, NULL, 1500);
	json_put_seconds(&t, NULL, -1);
	json_close(&t, ']');
	json_put_raw(&t, NULL, "{\"x\":1}", 7);
	json_put_bool(&t, NULL, false);
	json_close(&t, ']');
	assert_int_equal(text_error(&t), 0);
	assert_string_equal(text_string(&t),
		"[{\"a\":[],\"b\":{},\"c\":true},null,[-1,-9223372036854775808,1.500,-0.001],{\"x\":1},false]");
	text_finish(&t);
}

static void test_decimals_are_rounded_and_nan_and_huge_numbers_become_null(void **state)
{
	(void)state;
	struct text t = {0};
	json_open(&t, NULL, '[');
	json_put_decimal(&t, NULL, 1.0005, 3);
	json_put_decimal(&t, NULL, -0.0004, 3);
	json_put_decimal(&t, NULL, -1.5, 1);
	json_put_decimal(&t, NULL, 2.5, 0);
	json_put_decimal(&t, NULL, 0.000000001, 9);
	json_put_decimal(&t, NULL, 12345678901234.0, 3);
	json_put_decimal(&t, NULL, 1e300, 3);
	json_put_decimal(&t, NULL, __builtin_nan(""), 3);
	json_close(&t, ']');
	assert_string_equal(text_string(&t), "[1.001,0.000,-1.5,3,0.000000001,12345678901234,null,null]");
	text_finish(&t);
}

static void test_two_values_into_one_text_are_two_lines(void **state)
{
	(void)state;
	struct text t = {0};
	for (int i = 0; i < 2; i++) {
		json_open(&t, NULL, '[');
		json_close(&t, ']');
		text_append_char(&t, '\n');
	}
	assert_string_equal(text_string(&t), "[]\n[]\n");
	text_finish(&t);
}

static void assert_written(const char *data, size_t size, const char *expected)
{
	struct text t = {0};
	json_put_bytes(&t, NULL, data, size);
	assert_string_equal(text_string(&t), expected);
	text_finish(&t);
}
#define WRITTEN(literal, expected) assert_written(literal, sizeof(literal) - 1, expected)

static void test_strings_of_any_bytes_become_valid(void **state)
{
	(void)state;
	WRITTEN("", "\"\"");
	WRITTEN("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	WRITTEN("\n\t\r\b\f\x01\x1f\x7f", "\"\\n\\t\\r\\b\\f\\u0001\\u001f\\u007f\"");
	WRITTEN("a\0b", "\"a\\u0000b\"");
	WRITTEN("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
	WRITTEN("\xFF", "\"" FFFD "\"");
	WRITTEN("a\xC3", "\"a" FFFD "\"");                          /* cut off */
	WRITTEN("\xC3(", "\"" FFFD "(\"");                          /* what follows is kept */
	WRITTEN("\xE2\x82\"", "\"" FFFD FFFD "\\\"\"");             /* and escaped */
	WRITTEN("\xC0\xAF", "\"" FFFD FFFD "\"");                   /* overlong */
	WRITTEN("\xE0\x80\x80", "\"" FFFD FFFD FFFD "\"");          /* overlong */
	WRITTEN("\xED\xA0\x80", "\"" FFFD FFFD FFFD "\"");          /* surrogate */
	WRITTEN("\xF4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""); /* beyond Unicode */
	WRITTEN("\xF0\x80\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""); /* overlong */
	WRITTEN("\xF5\x80", "\"" FFFD FFFD "\"");
	WRITTEN("\x80", "\"" FFFD "\"");
}

/* Plain bytes are skipped eight at a time, so each byte is tested at each position. */
static void test_each_byte_is_escaped_at_each_place(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		struct text one = {0};
		char byte = (char)c;
		json_put_bytes(&one, NULL, &byte, 1);
		bool is_text = c > 0 && c < 0x80;
		for (size_t place = 0; place < 18; place++) {
			char data[] = "abcdefgh~ !#[]jklm", expected[64];
			data[place] = byte;
			snprintf(expected, sizeof(expected), "\"%.*s%.*s%s\"", (int)place, "abcdefgh~ !#[]jklm",
				(int)one.length - 2, one.data + 1, data + place + 1);
			assert_written(data, 18, expected);
			struct text any = {0};
			json_put_any(&any, "k", data, 18);
			assert_int_equal(strstr(text_string(&any), "k_b64") == NULL, is_text);
			text_finish(&any);
		}
		bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
		assert_int_equal(one.length == 3 && one.data[1] == byte, plain);
		text_finish(&one);
	}
}

/* The C1 controls, of which U+009B begins a control sequence; direction and zero-width marks; tags. */
static void test_what_deceives_a_terminal_is_escaped(void **state)
{
	(void)state;
	WRITTEN("\xC2\x80\xC2\x9B"
		"2J\xC2\x9F\xC2\xA0",
		"\"\\u0080\\u009b2J\\u009f\xC2\xA0\"");
	WRITTEN("\u202e\u2066\u200f\u200b\ufeff\u2028", "\"\\u202e\\u2066\\u200f\\u200b\\ufeff\\u2028\"");
	WRITTEN("\xF3\xA0\x80\x81", "\"\\udb40\\udc01\""); /* U+E0001 */
}

static void test_lines_are_cut_at_whole_characters(void **state)
{
	(void)state;
	char line[8];
	assert_int_equal(utf8_copy_line(line, sizeof(line), "ab\xC3\xA9\xE2\x82\xAC", 7), 7);
	assert_string_equal(line, "ab\xC3\xA9\xE2\x82\xAC");
	assert_int_equal(utf8_copy_line(line, 7, "ab\xC3\xA9\xE2\x82\xAC", 7), 4);
	assert_string_equal(line, "ab\xC3\xA9");
	assert_int_equal(utf8_copy_line(line, sizeof(line),
				 "\x1b\xC2\x9B"
				 "a",
				 4),
		7);
	assert_string_equal(line, FFFD FFFD "a");
	assert_int_equal(utf8_copy_line(line, 1, "a", 1), 0);
	assert_string_equal(line, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_and_arrays_nest_with_their_commas),
		cmocka_unit_test(test_decimals_are_rounded_and_nan_and_huge_numbers_become_null),
		cmocka_unit_test(test_two_values_into_one_text_are_two_lines),
		cmocka_unit_test(test_strings_of_any_bytes_become_valid),
		cmocka_unit_test(test_each_byte_is_escaped_at_each_place),
		cmocka_unit_test(test_what_deceives_a_terminal_is_escaped),
		cmocka_unit_test(test_lines_are_cut_at_whole_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
