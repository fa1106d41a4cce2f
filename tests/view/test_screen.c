/* SPDX-License-Identifier: MIT */
/* The screen of gpuq top: cells, bars and plots. */
#include "top_rig.h"

static void test_cells_are_never_left_with_half_a_character(void **state)
{
	struct top_rig *l = *state;
	struct screen *s = &l->screen;
	assert_int_equal(screen_begin(s, 2, 6), 0);
	assert_int_equal(screen_put(s, 0, 0, 6, 0, "日本語"), 6);
	assert_int_equal(screen_put(s, 0, 1, 1, 0, "x"), 1);
	assert_string_equal(top_rig_row(l, 0), " x本語");
	screen_put(s, 0, 4, 1, 0, "y");
	assert_string_equal(top_rig_row(l, 0), " x本y");
	/* One column is not enough for a wide character; an ellipsis replaces it. */
	assert_int_equal(screen_put(s, 1, 5, 9, 0, "日本"), 1);
	assert_string_equal(top_rig_row(l, 1), "     …");
	/* Outside of the screen nothing happens. */
	assert_int_equal(screen_put(s, 7, 0, 6, 0, "x"), 0);
	assert_int_equal(screen_put(s, 0, 6, 6, 0, "x"), 0);
	assert_int_equal(screen_put(s, 0, -1, 6, 0, "x"), 0);
	screen_fill(s, 1, 3, 100, 0, "-");
	assert_string_equal(top_rig_row(l, 1), "   ---");
}

static void test_marks_go_with_their_character(void **state)
{
	struct top_rig *l = *state;
	assert_int_equal(screen_begin(&l->screen, 1, 4), 0);
	assert_int_equal(screen_put(&l->screen, 0, 0, 4, 0, "e\u0301x"), 2);
	assert_string_equal(top_rig_row(l, 0), "e\u0301x");
	/* Marks beyond the capacity of a cell are dropped. */
	assert_int_equal(screen_put(&l->screen, 0, 0, 4, 0,
				 "a\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301"),
		1);
	assert_true(strlen(l->screen.cells[0].text) < SCREEN_CELL);
}

static void test_bars_and_plots_have_the_right_height(void **state)
{
	struct top_rig *l = *state;
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.5);
	assert_string_equal(top_rig_row(l, 0), "━━━━────");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.001);
	assert_string_equal(top_rig_row(l, 0), "╸───────");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.999);
	assert_string_equal(top_rig_row(l, 0), "━━━━━━━╸");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 7);
	assert_string_equal(top_rig_row(l, 0), "━━━━━━━━");
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	const int values[] = {-1, 0, 25, 50, 75, 100};
	screen_plot(&l->screen, 0, 0, 4, 1, SCREEN_GREEN, values, 6);
	assert_string_equal(top_rig_row(l, 0), " ⢀⣠⣾");
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	screen_plot(&l->screen, 0, 0, 4, 2, SCREEN_GREEN, values, 5);
	assert_string_equal(top_rig_row(l, 0), "   ⢠");
	assert_string_equal(top_rig_row(l, 1), "  ⣠⣿");
	screen_plot(&l->screen, 0, 0, 4, 1, SCREEN_GREEN, values, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		top_rig_test(test_cells_are_never_left_with_half_a_character),
		top_rig_test(test_marks_go_with_their_character),
		top_rig_test(test_bars_and_plots_have_the_right_height),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
