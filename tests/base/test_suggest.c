/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/suggest.h"

static const char *const words[] = {"gpus", "gpu_ids", "min_free_mem_mb", "poll_interval", "log_dir", "jobs_file"};

static const char *near(const char *word)
{
	return suggest(word, words, sizeof(words) / sizeof(words[0]));
}

static void test_misspelled_word_finds_the_nearest_known_one(void **state)
{
	(void)state;
	assert_string_equal(near("gpu"), "gpus");
	assert_string_equal(near("gpu_id"), "gpu_ids");
	assert_string_equal(near("log-dir"), "log_dir");
	assert_string_equal(near("LOG_DIR"), "log_dir");
	assert_string_equal(near("lgo_dir"), "log_dir");
	assert_string_equal(near("lgo_idr"), "log_dir"); /* a swap of neighbors is one typo, not two */
	assert_string_equal(near("poll_intervall"), "poll_interval");
	assert_string_equal(near("min_free_mem"), "min_free_mem_mb");
	assert_string_equal(near("min_free"), "min_free_mem_mb");
}

static void test_word_unlike_any_known_one_finds_nothing(void **state)
{
	(void)state;
	assert_null(near("webhook"));
	assert_null(near("x"));
	assert_null(near(""));
	assert_null(near("a_word_that_is_longer_than_anything_we_would_ever_know"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_misspelled_word_finds_the_nearest_known_one),
		cmocka_unit_test(test_word_unlike_any_known_one_finds_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
