/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "view/panel/capture.h"

static void cleans(const char *line, const char *expected)
{
	struct text t = {0};
	capture_clean(&t, line, strlen(line));
	assert_string_equal(text_string(&t), expected);
	text_finish(&t);
}

static void test_a_line_is_as_a_terminal_would_leave_it(void **state)
{
	(void)state;
	cleans("plain\ttext …", "plain\ttext …");
	cleans("", "");
	cleans(" 10%\r 50%\r100% done\r", "100% done");
	cleans("\033[31mred\033[0m rest", "\033[31mred\033[0m rest\033[0m");
	cleans("\033[38;5;9mred", "\033[38;5;9mred\033[0m");
	/* The C1 controls, as UTF-8 and as bytes, and marks that reverse the text. */
	cleans("a\xc2\x9b"
	       "2J\x9b"
	       "2J\x7f\u202eb\u200b",
		"a\\u009b2J\\x9b2J\\x7f\\u202eb\\u200b");
	cleans("a\033[2Jb\033[10;3Hc\033[?25ld", "abcd");
	cleans("\033]0;title\ab\033]0;title\033\\c", "bc");
	cleans("a\bb\a\x01"
	       "c",
		"abc");
	cleans("cut\033", "cut");
	cleans("cut\033[", "cut");
	cleans("cut\033[31", "cut");
	cleans("cut\033]0;t", "cut");
}

static void test_incomplete_line_is_held_until_the_end(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	struct capture c = {.fd = fds[0], .terminal_fd = -1, .saved = {-1, -1, -1}};
	struct text t = {0};
	assert_int_equal(write(fds[1], "one\ntw", 6), 6);
	close(fds[1]);
	assert_true(capture_read(&c, &t, false));
	assert_string_equal(text_string(&t), "one\n");
	capture_read(&c, &t, true);
	assert_string_equal(text_string(&t), "one\ntw\n");
	text_finish(&t);
	capture_end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line_is_as_a_terminal_would_leave_it),
		cmocka_unit_test(test_incomplete_line_is_held_until_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
