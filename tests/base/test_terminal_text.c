/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/terminal_text.h"

/* The result is the same in one piece, byte by byte, or in any two pieces. */
static void check(bool one_line, const char *written, const char *shown)
{
	size_t size = strlen(written);
	for (size_t cut = 0; cut <= size + 1; cut++) {
		struct terminal_text f = {.one_line = one_line};
		struct text t = {0};
		if (cut <= size) {
			terminal_text_append(&f, &t, written, cut);
			terminal_text_append(&f, &t, written + cut, size - cut);
		}
		for (size_t i = 0; cut > size && i < size; i++)
			terminal_text_append(&f, &t, written + i, 1);
		terminal_text_end(&f, &t);
		assert_string_equal(text_string(&t), shown);
		text_finish(&t);
	}
}

static void test_text_and_colors_pass(void **state)
{
	(void)state;
	check(false, "", "");
	check(false, "größe 日本語 🦜\tx\n 50%\r100%\b\n", "größe 日本語 🦜\tx\n 50%\r100%\b\n");
	check(false, "\033[1;31mred\033[0m\n", "\033[1;31mred\033[0m\n\033[0m");
	check(false, "\033[38:2::1:2:3mx\033[m", "\033[38:2::1:2:3mx\033[m\033[0m");
}

static void test_control_sequences_are_shown_as_text(void **state)
{
	(void)state;
	check(false, "\033[2J\033[H\033[31", "\\x1b[2J\\x1b[H\\x1b[31");
	check(false, "\033]0;title\007\033]52;c;aGk=\033\\", "\\x1b]0;title\\x07\\x1b]52;c;aGk=\\x1b\\");
	check(false, "\033Pq\033c\033(0\033", "\\x1bPq\\x1bc\\x1b(0\\x1b");
	check(false, "\033[?1049h\033[6n\033[31 m\033[>4m", "\\x1b[?1049h\\x1b[6n\\x1b[31 m\\x1b[>4m");
	check(false, "\033\033[1mx", "\\x1b\033[1mx\033[0m");
	check(false,
		"\x9b"
		"2J\xc2\x9b"
		"2J\x90\xff\x7f\x0e\v\f",
		"\\x9b2J\\u009b2J\\x90\\xff\\x7f\\x0e\\x0b\\x0c");
	check(false, "a\u202eb\u2066c\u200bd\ufeff", "a\\u202eb\\u2066c\\u200bd\\ufeff");
	check(false, "cut \xe2\x82", "cut \\xe2\\x82");
}

static void test_color_sequence_without_an_end_is_not_kept_forever(void **state)
{
	(void)state;
	char written[200] = "\033[", shown[210] = "\\x1b[";
	memset(written + 2, '1', 150);
	memset(shown + 5, '1', 150);
	strcpy(written + 152, "m");
	strcpy(shown + 155, "m");
	check(false, written, shown);
}

static void test_carriage_return_and_backspace_after_other_text_are_escaped(void **state)
{
	(void)state;
	check(true, "a\rb\bc\td", "a\\rb\\x08c\td");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_and_colors_pass),
		cmocka_unit_test(test_control_sequences_are_shown_as_text),
		cmocka_unit_test(test_color_sequence_without_an_end_is_not_kept_forever),
		cmocka_unit_test(test_carriage_return_and_backspace_after_other_text_are_escaped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
