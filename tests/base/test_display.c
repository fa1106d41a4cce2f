/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/display.h"

static void shows_bytes(const char *data, size_t size, size_t max, const char *shown, size_t columns)
{
	struct text t = {0};
	size_t used = display_append(&t, data, size, max);
	assert_string_equal(text_string(&t), shown);
	assert_int_equal(used, columns);
	text_finish(&t);
}

static void shows(const char *s, size_t max, const char *shown, size_t columns)
{
	shows_bytes(s, strlen(s), max, shown, columns);
}

static void test_nothing_shown_can_control_the_terminal(void **state)
{
	(void)state;
	shows("a\x1b[31mb", DISPLAY_ALL, "a\\x1b[31mb", 10);
	shows("a\nb\tc\rd\x7f", DISPLAY_ALL, "a\\nb\\tc\\rd\\x7f", 14);
	shows_bytes("a\0b", 3, DISPLAY_ALL, "a\\x00b", 6);
	shows("\xc2\x9b", DISPLAY_ALL, "\\u009b", 6); /* CSI in one character */
	shows("a\u202e"
	      "b",
		DISPLAY_ALL, "a\\u202eb", 8); /* right to left */
	shows("\u200b\u2066\ufeff", DISPLAY_ALL, "\\u200b\\u2066\\ufeff", 18);
	shows("\U000e0041", DISPLAY_ALL, "\\U000e0041", 10);
}

/* Plain bytes are skipped eight at a time, so each byte is tested at each position. */
static void test_each_byte_is_found_at_each_place(void **state)
{
	(void)state;
	for (int c = 1; c < 256; c++)
		for (size_t place = 0; place < 18; place++) {
			char data[] = "abcdefgh~ !#[]jklm", shown[32], number[8];
			const char *name = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : number;
			data[place] = (char)c;
			if (c >= 0x20 && c < 0x7f)
				snprintf(number, sizeof(number), "%c", c);
			else
				snprintf(number, sizeof(number), "\\x%02x", (unsigned)c);
			snprintf(shown, sizeof(shown), "%.*s%s%s", (int)place, data, name, data + place + 1);
			shows(data, DISPLAY_ALL, shown, strlen(shown));
			assert_int_equal(display_width(data, 18), strlen(shown));
		}
}

static void test_invalid_utf8_is_shown_byte_by_byte(void **state)
{
	(void)state;
	shows("\xff\xfe", DISPLAY_ALL, "\\xff\\xfe", 8);
	shows("\xc0\xaf", DISPLAY_ALL, "\\xc0\\xaf", 8);           /* overlong */
	shows("\xed\xa0\x80", DISPLAY_ALL, "\\xed\\xa0\\x80", 12); /* surrogate */
	shows("\xf4\x90\x80\x80", DISPLAY_ALL, "\\xf4\\x90\\x80\\x80", 16);
	shows("\xe2\x82", DISPLAY_ALL, "\\xe2\\x82", 8); /* cut off */
	shows("\xe2\x82z", DISPLAY_ALL, "\\xe2\\x82z", 9);
}

static void test_width_counts_columns_in_any_locale(void **state)
{
	(void)state;
	/* The program has not called setlocale(): it is in "C". */
	assert_int_equal(display_width("naïve", strlen("naïve")), 5);
	assert_int_equal(display_width("日本語", strlen("日本語")), 6);
	assert_int_equal(display_width("e\u0301", 3), 1); /* a combining accent */
	assert_int_equal(display_width("\x01", 1), 4);
}

static void test_text_is_cut_to_its_columns(void **state)
{
	(void)state;
	shows("python train.py", 15, "python train.py", 15);
	shows("python train.py", 14, "python train.…", 14);
	shows("python", 1, "…", 1);
	shows("python", 0, "", 0);
	shows("", 0, "", 0);
	shows("日本語", 6, "日本語", 6);
	shows("日本語", 5, "日本…", 5);
	shows("日本語", 4, "日…", 3);  /* no half characters */
	shows("ab\x1bz", 5, "ab…", 3); /* an escape is not cut in two */
}

static void test_padded_text_has_exactly_its_columns(void **state)
{
	(void)state;
	struct text t = {0};
	display_append_padded(&t, "日本語", 9, 4);
	text_append_char(&t, '|');
	display_append_padded(&t, "ab", 2, 4);
	text_append_char(&t, '|');
	assert_string_equal(text_string(&t), "日… |ab  |");
	text_finish(&t);
}

static void test_text_is_never_wider_than_requested_and_has_no_control_characters(void **state)
{
	(void)state;
	srand(7);
	for (int round = 0; round < 20000; round++) {
		char data[24];
		size_t size = (size_t)(rand() % (int)sizeof(data)), max = (size_t)(rand() % 12);
		for (size_t i = 0; i < size; i++)
			data[i] = (char)(rand() % 3 ? rand()
						    : "\xe6\x97\xa5\xcc\x81"
						      "ab"[rand() % 7]);
		struct text t = {0};
		size_t used = display_append(&t, data, size, max);
		assert_true(used <= max);
		for (size_t i = 0; i < t.length; i++)
			assert_true((unsigned char)t.data[i] >= 0x20 && t.data[i] != 0x7f);
		assert_int_equal(display_width(text_string(&t), t.length), used);
		text_finish(&t);
	}
}

static void test_a_command_is_shown_from_the_start_of_a_word_or_its_option(void **state)
{
	(void)state;
	static const char command[] = "train.py --seed 17 runs/17";
	assert_int_equal(display_word_start(command, 17), 9);  /* in 17, the value of --seed */
	assert_int_equal(display_word_start(command, 24), 19); /* in runs/17 */
	assert_int_equal(display_word_start(command, 3), 0);
	assert_int_equal(display_word_start(command, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_shown_can_control_the_terminal),
		cmocka_unit_test(test_each_byte_is_found_at_each_place),
		cmocka_unit_test(test_invalid_utf8_is_shown_byte_by_byte),
		cmocka_unit_test(test_width_counts_columns_in_any_locale),
		cmocka_unit_test(test_text_is_cut_to_its_columns),
		cmocka_unit_test(test_padded_text_has_exactly_its_columns),
		cmocka_unit_test(test_text_is_never_wider_than_requested_and_has_no_control_characters),
		cmocka_unit_test(test_a_command_is_shown_from_the_start_of_a_word_or_its_option),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
