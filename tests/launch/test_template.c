/* SPDX-License-Identifier: MIT */
/* Words in a command, filled in and mistyped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launch/template.h"

static const struct gd_setting settings[] = {{.key = "model_size", .value = "base"}, {.key = "language", .value = "en"},
	{.key = "beam", .value = "5"}, {.key = "beam", .value = "7"}, {.key = "odd", .value = "{file} $x 'y'"}};
#define NUM_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static char **fill(const char *const *argv, const struct gd_file *file)
{
	const struct template_values values = {
		.file = file, .gpu = 3, .seed = -45, .settings = settings, .num_settings = NUM_SETTINGS};
	char **filled = NULL;
	assert_int_equal(template_check(argv, settings, NUM_SETTINGS, NULL), 0);
	assert_int_equal(template_fill(argv, &values, &filled), 0);
	return filled;
}

static const struct gd_file usual = {.path = "/a b/-c\n.wav", .output_dir = "/out/-c\n", .stem = "-c\n"};

static void test_every_placeholder_is_filled_in(void **state)
{
	(void)state;
	const char *const argv[] = {"{stem}", "{name}", "{dir}", "{output}/{stem}.txt", "{gpu}{seed}", "{model_size}",
		"-l{language}", "--file={file}", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "-c\n");
	assert_string_equal(filled[1], "-c\n.wav");
	assert_string_equal(filled[2], "/a b");
	assert_string_equal(filled[3], "/out/-c\n/-c\n.txt");
	assert_string_equal(filled[4], "3-45");
	assert_string_equal(filled[5], "base");
	assert_string_equal(filled[6], "-len");
	assert_string_equal(filled[7], "--file=/a b/-c\n.wav");
	assert_null(filled[8]);
	free(filled);
}

static void test_doubled_braces_become_single_and_empty_arguments_stay(void **state)
{
	(void)state;
	const char *const argv[] = {"", "{{file}}", "}}{{{{", "{{{file}}}", "", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "");
	assert_string_equal(filled[1], "{file}");
	assert_string_equal(filled[2], "}{{");
	assert_string_equal(filled[3], "{/a b/-c\n.wav}");
	assert_string_equal(filled[4], "");
	assert_null(filled[5]);
	free(filled);
}

static void test_values_are_not_expanded_again_and_the_last_setting_counts(void **state)
{
	(void)state;
	const char *const argv[] = {"{odd}", "{beam}", NULL};
	char **filled = fill(argv, &usual);
	assert_string_equal(filled[0], "{file} $x 'y'");
	assert_string_equal(filled[1], "7");
	free(filled);
}

static void test_file_in_the_root_has_the_root_for_a_folder(void **state)
{
	(void)state;
	const char *const argv[] = {"{dir}", "{name}", NULL};
	char **filled = fill(argv, &(struct gd_file){.path = "/x", .output_dir = "/", .stem = "x"});
	assert_string_equal(filled[0], "/");
	assert_string_equal(filled[1], "x");
	free(filled);
}

static void assert_wrong(const char *argument, size_t num_settings, const char *words)
{
	const char *const argv[] = {"x", argument, NULL};
	struct gd_error err = {0};
	assert_int_equal(template_check(argv, settings, num_settings, &err), -EINVAL);
	if (!strstr(err.message, words))
		fail_msg("'%s' not in '%s'", words, err.message);
	char **filled = NULL;
	const struct template_values values = {.file = &usual, .settings = settings, .num_settings = num_settings};
	assert_int_equal(template_fill(argv, &values, &filled), -EINVAL);
	assert_null(filled);
}

static void test_unknown_word_or_unpaired_brace_is_an_error_that_names_it(void **state)
{
	(void)state;
	assert_wrong("{flie}", NUM_SETTINGS, "{flie} in the command is not known; did you mean {file}?");
	assert_wrong("{beem}", NUM_SETTINGS, "did you mean {beam}?");
	assert_wrong("{print $1}", 0, "{print $1} in the command is not known; there are {file} {stem} {name}");
	assert_wrong("{}", 0, "{} in the command is not known");
	assert_wrong("{file", 0, "a brace without its pair in '{file'");
	assert_wrong("{fi{le}}", 0, "a brace without its pair");
	assert_wrong("file}", 0, "write {{ and }}");
	assert_wrong("{model_size}", 0, "--model-size");
	assert_wrong("{language}", 1, "--language");
}

static void test_setting_that_a_word_hides_is_an_error(void **state)
{
	(void)state;
	const struct gd_setting hidden[] = {{.key = "a", .value = "1"}, {.key = "file", .value = "2"}};
	const char *const argv[] = {"x", NULL};
	struct gd_error err = {0};
	assert_int_equal(template_check(argv, hidden, 2, &err), -EINVAL);
	assert_non_null(strstr(err.message, "the setting 'file'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_placeholder_is_filled_in),
		cmocka_unit_test(test_doubled_braces_become_single_and_empty_arguments_stay),
		cmocka_unit_test(test_values_are_not_expanded_again_and_the_last_setting_counts),
		cmocka_unit_test(test_file_in_the_root_has_the_root_for_a_folder),
		cmocka_unit_test(test_unknown_word_or_unpaired_brace_is_an_error_that_names_it),
		cmocka_unit_test(test_setting_that_a_word_hides_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
