/* SPDX-License-Identifier: MIT */
/* One color per state, in all views. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "view/model/palette.h"

static void test_every_state_has_a_color_of_its_own(void **state)
{
	(void)state;
	for (int a = 0; a < VIEW_JOB_STATES; a++) {
		enum palette_color color = palette_of_job((enum view_job_state)a);
		assert_int_not_equal(color, PALETTE_PLAIN);
		for (int b = 0; b < a; b++)
			assert_int_not_equal(color, palette_of_job((enum view_job_state)b));
	}
	assert_int_equal(palette_of_job(VIEW_JOB_COMPLETED), PALETTE_GREEN);
	assert_int_equal(palette_of_job(VIEW_JOB_RUNNING), PALETTE_BLUE);
	assert_int_equal(palette_of_job(VIEW_JOB_FAILED), PALETTE_RED);
	assert_int_equal(palette_of_job(VIEW_JOB_PENDING), PALETTE_GRAY);
	/* A busy GPU looks like a running job. */
	assert_int_equal(palette_of_gpu(VIEW_GPU_PROCESSING), PALETTE_BLUE);
}

static void test_pages_have_the_same_states_in_light_and_dark(void **state)
{
	(void)state;
	cleanup_(text_finish) struct text css = {0};
	palette_put_css(&css);
	const char *dark = strstr(text_string(&css), "prefers-color-scheme:dark");
	assert_non_null(dark);
	for (int i = 0; i < VIEW_JOB_STATES; i++) {
		char name[32];
		snprintf(name, sizeof(name), "--%s:#", view_job_state_name((enum view_job_state)i));
		const char *first = strstr(text_string(&css), name);
		assert_non_null(first);
		assert_true(first < dark);
		assert_non_null(strstr(dark, name));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_state_has_a_color_of_its_own),
		cmocka_unit_test(test_pages_have_the_same_states_in_light_and_dark),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
