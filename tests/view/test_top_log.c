/* SPDX-License-Identifier: MIT */
/* The log of a job in gpuq top. */
#include <stdio.h>
#include <stdlib.h>

#include "top_rig.h"

static void append(struct top_rig *l, const char *text)
{
	assert_int_equal(log_tail_append(&l->top.log, text, strlen(text)), 0);
}

static void test_a_log_reads_as_in_a_terminal(void **state)
{
	struct top_rig *l = *state;
	top_show_log(&l->top, 1);
	append(l, "\x1b[1;31mred\x1b[0m and \x1b]0;title\aplain\n");
	append(l, "  0%\r 50%\r100%\r\n");
	append(l, "a\tb\n\n\xff\x01 größe");
	top_rig_draw(l, 24, 80);
	assert_string_equal(top_rig_row(l, 1), "red and plain");
	assert_string_equal(top_rig_row(l, 2), "100%");
	assert_string_equal(top_rig_row(l, 3), "a       b");
	assert_string_equal(top_rig_row(l, 4), "");
	assert_string_equal(top_rig_row(l, 5), "\\xff\\x01 größe");
	/* A line continues where it was. */
	append(l, "r\nnext");
	top_rig_draw(l, 24, 80);
	assert_string_equal(top_rig_row(l, 5), "\\xff\\x01 größer");
	assert_string_equal(top_rig_row(l, 6), "next");
}

static void test_hostile_log_lines_and_names_stay_text(void **state)
{
	struct top_rig *l = *state;
	static const char hostile[] = "a\x1b[2J\x1b]52;c;aGk=\x07\xc2\x9b"
				      "2J\x9b"
				      "2J\x1bP+q\x1b\\\x07\x7f\u202eb\u2066\u200b";
	top_rig_put_job(l, 9, VIEW_JOB_RUNNING, hostile);
	for (int in_log = 0; in_log < 2; in_log++) {
		if (in_log) {
			top_show_log(&l->top, 9);
			append(l, hostile);
		}
		const char *drawn = top_rig_draw(l, 24, 200);
		assert_shows(drawn, "\\u009b2J\\x9b2J");
		assert_shows(drawn, "\\u202eb\\u2066\\u200b");
		for (const char *p = drawn; *p; p++)
			assert_true(*p == '\n' || ((unsigned char)*p >= 0x20 && *p != 0x7f));
		assert_shows_not(drawn, "\xc2\x9b");
		assert_shows_not(drawn, "\u202e");
	}
}

static void test_a_log_is_followed_until_the_user_scrolls(void **state)
{
	struct top_rig *l = *state;
	char line[32];
	top_show_log(&l->top, 1);
	for (int i = 1; i <= 100; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		append(l, line);
	}
	top_rig_draw(l, 12, 80);
	assert_string_equal(top_rig_row(l, 1), "line 91");
	assert_string_equal(top_rig_row(l, 10), "line 100");
	assert_shows(top_rig_draw(l, 12, 80), "following");
	top_key(&l->top, TOP_KEY_UP);
	append(l, "line 101\n");
	top_rig_draw(l, 12, 80);
	assert_string_equal(top_rig_row(l, 1), "line 90");
	assert_shows(top_rig_draw(l, 12, 80), "stopped");
	top_rig_keys(l, "F");
	top_rig_draw(l, 12, 80);
	assert_string_equal(top_rig_row(l, 10), "line 101");
	top_rig_keys(l, "g");
	top_rig_draw(l, 12, 80);
	assert_string_equal(top_rig_row(l, 1), "line 1");
	for (int i = 0; i < 20; i++)
		top_key(&l->top, TOP_KEY_PAGE_DOWN);
	assert_shows(top_rig_draw(l, 12, 80), "following");
	top_rig_keys(l, "q");
	assert_int_equal(l->top.request, TOP_CLOSE_LOG);
	assert_int_equal(l->top.mode, TOP_LIST);
}

static void test_long_lines_wrap_or_are_cut(void **state)
{
	struct top_rig *l = *state;
	top_show_log(&l->top, 1);
	append(l, "0123456789012345678901234567890123456789abcdefghij\nnext\n");
	top_rig_draw(l, 8, 40);
	assert_string_equal(top_rig_row(l, 1), "0123456789012345678901234567890123456789");
	assert_string_equal(top_rig_row(l, 2), "abcdefghij");
	assert_string_equal(top_rig_row(l, 3), "next");
	top_rig_keys(l, "w");
	top_rig_draw(l, 8, 40);
	assert_string_equal(top_rig_row(l, 1), "012345678901234567890123456789012345678…");
	assert_string_equal(top_rig_row(l, 2), "next");
	top_key(&l->top, TOP_KEY_RIGHT);
	top_key(&l->top, TOP_KEY_RIGHT);
	top_rig_draw(l, 8, 40);
	assert_string_equal(top_rig_row(l, 1), "678901234567890123456789abcdefghij");
}

static void test_of_a_long_log_the_end_is_kept(void **state)
{
	struct top_rig *l = *state;
	struct log_tail *tail = &l->top.log;
	char line[64];
	top_show_log(&l->top, 1);
	for (int i = 1; i <= 100000; i++) {
		int n = snprintf(line, sizeof(line), "line %d of a log that is long\n", i);
		assert_int_equal(log_tail_append(tail, line, (size_t)n), 0);
		assert_true(tail->bytes.length <= LOG_TAIL_BYTES);
	}
	assert_true(tail->cut);
	assert_int_equal(tail->num_dropped + log_tail_lines(tail), 100000);
	top_rig_draw(l, 12, 80);
	assert_string_equal(top_rig_row(l, 10), "line 100000 of a log that is long");
	top_rig_keys(l, "g");
	top_rig_draw(l, 12, 80);
	snprintf(line, sizeof(line), "line %d of a log that is long", (int)tail->num_dropped + 1);
	assert_string_equal(top_rig_row(l, 1), line);
	/* One line without an end. */
	char *endless = malloc(3 * LOG_TAIL_BYTES);
	assert_non_null(endless);
	memset(endless, 'x', 3 * LOG_TAIL_BYTES);
	assert_int_equal(log_tail_append(tail, endless, 3 * LOG_TAIL_BYTES), 0);
	free(endless);
	assert_true(tail->bytes.length <= LOG_TAIL_BYTES);
	top_rig_keys(l, "F");
	top_rig_draw(l, 12, 80);
	assert_shows(top_rig_row(l, 1), "xxx");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		top_rig_test(test_a_log_reads_as_in_a_terminal),
		top_rig_test(test_hostile_log_lines_and_names_stay_text),
		top_rig_test(test_a_log_is_followed_until_the_user_scrolls),
		top_rig_test(test_long_lines_wrap_or_are_cut),
		top_rig_test(test_of_a_long_log_the_end_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
