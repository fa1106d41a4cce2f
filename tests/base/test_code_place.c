/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/code_place.h"

static void test_argument_begins_with_a_letter_a_digit_or_a_path(void **state)
{
	(void)state;
	static const char *const fine[] = {"a|", "Z", "0", "_x", ".x", "/x", "\xc3\xa4", "\xe9\x9f\xb3"};
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		if (!place_may_begin(fine[i], strlen(fine[i])))
			fail_msg("'%s' may not begin an argument", fine[i]);
}

static void test_argument_begins_with_no_special_character(void **state)
{
	(void)state;
	static const char signs[] = "-@|+=:%,~!<>&#$[]{}()^*?;'\"`\\ \t\n\x7f\xff";
	for (size_t i = 0; signs[i]; i++)
		if (place_may_begin((char[]){signs[i], 'x', '\0'}, 2))
			fail_msg("'%c' begins an argument", signs[i]);
	assert_false(place_may_begin("\xe2\x80\x9cx", 4));
	assert_false(place_may_begin("\xc2\xa0x", 3));
	assert_false(place_may_begin("", 0));
	static const char *const schemes[] = {"msl:x.wav", "ephemeral:notes.txt", "concat:a", "a:b", "x-y+z.1:b",
		".a:b", "user@host:x", "10.0.0.5:x", "12:30.wav", "a_b:c", "subfile,,start,0,end,9,,:x", "\xc3\xa4:x"};
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (place_may_begin(schemes[i], strlen(schemes[i])))
			fail_msg("%s", schemes[i]);
	assert_true(place_may_begin("a/b:c", 5));
	assert_true(place_may_begin("/a:b", 4));
}

static void test_arguments_of_programs_that_execute_them_are_code(void **state)
{
	(void)state;
	static const char *const programs[] = {"sox", "soxi", "play", "/usr/bin/rec", "ruby", "ssh", "autossh", "mosh",
		"pssh", "parallel-ssh", "pdsh", "dsh", "qsub", "pueue", "exiftool", "sem", "niceload", "snakemake"};
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		assert_true(place_is_code((const char *const[]){"nice", programs[i], "x", "y", NULL}, 3));
	assert_false(place_is_code((const char *const[]){"nice", "soxy", "x", "y", NULL}, 3));
}

static void test_arguments_of_container_images_are_code(void **state)
{
	(void)state;
	assert_true(place_is_code((const char *const[]){"nice", "apptainer", "-q", "run", "a.sif", "x", NULL}, 5));
	assert_true(place_is_code((const char *const[]){"singularity", "instance", "run", "a.sif", "x", NULL}, 4));
	assert_true(place_is_code((const char *const[]){"./a.sif", "x", NULL}, 1));
	assert_false(place_is_code((const char *const[]){"apptainer", "exec", "a.sif", "uv", "run", "x", NULL}, 5));
}

static void test_absolute_paths_are_not_code_for_sox_and_for_sed_with_a_script(void **state)
{
	(void)state;
	assert_false(place_is_code((const char *const[]){"nice", "sox", "/x", "/y", NULL}, 2));
	assert_false(place_is_code((const char *const[]){"sed", "-n", "p", "/x", NULL}, 3));
	assert_false(place_is_code((const char *const[]){"sed", "-ni", "p", "/x", NULL}, 3));
	assert_false(place_is_code((const char *const[]){"sed", "-ne", "p", "/x", NULL}, 3));
	assert_false(place_is_code((const char *const[]){"sed", "-f", "x.sed", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "-ne", "/x", NULL}, 2));
	assert_true(place_is_code((const char *const[]){"sox", "./x", NULL}, 1));
	assert_true(place_is_code((const char *const[]){"sed", "/x", NULL}, 1));
	assert_true(place_is_code((const char *const[]){"sed", "-n", "/x", NULL}, 2));
	assert_true(place_is_code((const char *const[]){"sed", "-l", "5", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "-nl", "5", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "--line-length", "5", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "p", "-e", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "p", "-re", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"sed", "-e", "p", "-ze", "/x", NULL}, 4));
	assert_true(place_is_code((const char *const[]){"sed", "-e", "p", "--expr", "/x", NULL}, 4));
	assert_false(place_is_code((const char *const[]){"sed", "-re", "p", "-n", "/x", NULL}, 4));
	assert_false(place_is_code((const char *const[]){"sed", "p", "--", "/x", "/y", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"ssh", "h", "sox", "/x", NULL}, 3));
	assert_true(place_is_code((const char *const[]){"perl", "x.pl", "/x", NULL}, 2));
}

static void test_ordinary_names_have_no_special_character_of_any_language(void **state)
{
	(void)state;
	static const char *const ordinary[] = {"a/b c (1).wav", "Take_2.b+g-h", "\xc3\xa4 \xe9\x9f\xb3", " ", "("};
	static const char signs[] = ",:=@%*?[]{}~\\#$;|<>\"'!^&`\t\n\x1b\xff";
	for (size_t i = 0; i < sizeof(ordinary) / sizeof(ordinary[0]); i++)
		assert_true(place_is_ordinary(ordinary[i], strlen(ordinary[i])));
	for (const char *sign = signs; *sign; sign++) {
		const char name[] = {'a', ' ', *sign, '\0'}, first[] = {*sign, 'b', '\0'};
		assert_false(place_is_ordinary(name, 3));
		assert_false(place_is_ordinary(first, 2));
	}
	assert_false(place_is_ordinary("a\xe2\x80\xae", 4));
	assert_true(place_is_ordinary("a - b -", 7));
	assert_false(place_is_ordinary("a -b", 4));
	assert_false(place_is_ordinary("a /b", 4));
}

static void test_options_of_programs_introduce_languages(void **state)
{
	(void)state;
	static const char *const languages[][3] = {{"ffmpeg", "-vf", "x"}, {"ffmpeg", "-af:1", "x"},
		{"ffmpeg", "-lavfi", "x"}, {"ffmpeg", "-filter_complex", "x"}, {"ffmpeg", "-filter:v:0", "x"},
		{"mpv", "-x", "--vf=x"}, {"/usr/bin/curl", "-F", "x"}, {"curl", "-s", "--form=x"},
		{"gst-launch-1.0", "a", "x"}, {"socat", "-u", "x"}, {"docker", "--mount", "x"}, {"gdb", "-ex", "x"},
		{"matlab", "-batch", "x"}, {"node", "-p", "x"}, {"php", "-r", "x"}, {"sbatch", "-v", "--export=x"},
		{"sqlite3", "a.db", "x"}, {"tar", "-I", "x"}, {"tar", "--to-command", "x"}};
	static const char *const others[][3] = {{"tail", "-F", "x"}, {"ffmpeg", "-vframes", "x"}, {"cp", "-r", "x"},
		{"sqlite3", "-batch", "x"}, {"tar", "-f", "x"}, {"curl", "-T", "x"}, {"docker", "-v", "x"}};
	for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++)
		if (!place_is_language(languages[i], 2))
			fail_msg("%s %s", languages[i][0], languages[i][1]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (place_is_language(others[i], 2))
			fail_msg("%s %s", others[i][0], others[i][1]);
	assert_true(place_is_code((const char *const[]){"split", "--filter=x", NULL}, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_argument_begins_with_a_letter_a_digit_or_a_path),
		cmocka_unit_test(test_argument_begins_with_no_special_character),
		cmocka_unit_test(test_arguments_of_programs_that_execute_them_are_code),
		cmocka_unit_test(test_arguments_of_container_images_are_code),
		cmocka_unit_test(test_absolute_paths_are_not_code_for_sox_and_for_sed_with_a_script),
		cmocka_unit_test(test_ordinary_names_have_no_special_character_of_any_language),
		cmocka_unit_test(test_options_of_programs_introduce_languages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
