/* SPDX-License-Identifier: MIT */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/outputs.h"

static const char *choose(struct outputs *o, const char *path, size_t number)
{
	const char *output = NULL;
	assert_int_equal(outputs_choose(o, path, number, &output), 0);
	return output;
}

static void assert_stem(const char *path, const char *expected)
{
	size_t length;
	const char *stem = outputs_stem(path, &length);
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(stem, expected, length);
}

static void test_stem_is_the_name_without_its_last_extension(void **state)
{
	(void)state;
	assert_stem("b.wav", "b");
	assert_stem("a.d/b.c.wav", "b.c");
	assert_stem("a.d/b", "b");
	assert_stem(".wav", ".wav");
	assert_stem("..wav", "..wav");
	assert_stem("...wav", "...wav");
	assert_stem("....wav", "...");
	assert_stem("b.", "b");
	assert_stem("x/-f.wav", "-f");
}

static void test_no_two_files_share_a_folder(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_string_equal(choose(&o, "a/b.mp3", 0), "a/b");
	assert_string_equal(choose(&o, "a/b.wav", 1), "a/b.wav");
	assert_string_equal(choose(&o, "b.wav", 2), "b");
	assert_string_equal(choose(&o, "c.mp3.wav", 3), "c.mp3");
	assert_string_equal(choose(&o, "c.flac", 4), "c");
	assert_string_equal(choose(&o, "c.mp3", 5), "c.mp3+2");
	outputs_finish(&o);
}

static void test_no_file_gets_a_folder_that_contains_those_of_others(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_string_equal(choose(&o, "a/b/text.txt.wav", 0), "a/b/text.txt");
	assert_string_equal(choose(&o, "a/b.wav", 1), "a/b.wav");
	assert_string_equal(choose(&o, "a.wav", 2), "a.wav");
	assert_int_equal(outputs_claim(&o, "c/d", 3), 1);
	assert_string_equal(choose(&o, "c.wav", 4), "c.wav");
	outputs_finish(&o);
}

static void test_no_file_gets_a_folder_in_that_of_another(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_string_equal(choose(&o, "b.wav", 0), "b");
	assert_string_equal(choose(&o, "b/c.wav", 1), "b+c");
	assert_string_equal(choose(&o, "b/c.mp3", 2), "b+c.mp3");
	assert_string_equal(choose(&o, "b/c/d.wav", 3), "b+c+d");
	assert_string_equal(choose(&o, "b/e/f.wav", 4), "b+e/f");
	assert_string_equal(choose(&o, "b+c.flac", 5), "b+c.flac");
	assert_string_equal(choose(&o, "a/b/c.wav", 6), "a/b/c");
	outputs_finish(&o);
}

static void test_no_file_gets_a_folder_named_like_the_launchers_own_files(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_string_equal(choose(&o, "launch.jsonl.wav", 0), "launch.jsonl.wav");
	assert_string_equal(choose(&o, "launch.logs", 1), "launch");
	assert_string_equal(choose(&o, "launch.jsonl", 2), "launch.jsonl+2");
	assert_string_equal(choose(&o, "a/launch.logs.wav", 3), "a/launch.logs");
	assert_string_equal(choose(&o, "launch.logs/worker-1.log.wav", 4), "launch.logs+/worker-1.log");
	assert_string_equal(choose(&o, "launch.logs/worker-1.log.mp3", 5), "launch.logs+/worker-1.log.mp3");
	assert_string_equal(choose(&o, "launch.jsonl/x.wav", 6), "launch.jsonl+/x");
	assert_int_equal(outputs_claim(&o, "launch.logs/worker-1.log", 4), 0);
	outputs_finish(&o);
}

static void test_claimed_folder_stays_with_its_file(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_int_equal(outputs_claim(&o, "b", 0), 1);
	assert_int_equal(outputs_claim(&o, "b", 0), 1);
	assert_int_equal(outputs_claim(&o, "b", 1), 0);
	assert_string_equal(choose(&o, "b.aac", 7), "b.aac");
	outputs_finish(&o);
}

/* The history may have been edited, or written by another user. */
static void test_path_outside_the_output_folder_cannot_be_claimed(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "/etc", "..", "../x", "a/../../x", "a//b", "a/", "./a", "launch.jsonl"};
	struct outputs o = {0};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(outputs_claim(&o, bad[i], i), 0);
	assert_int_equal(outputs_claim(&o, "..a/b..", 0), 1);
	outputs_finish(&o);
}

static void test_folders_are_made_with_those_above(void **state)
{
	(void)state;
	assert_int_equal(outputs_make_folder(AT_FDCWD, "a/b/c", 0700), OUTPUTS_MADE);
	assert_int_equal(outputs_make_folder(AT_FDCWD, "a/b/c", 0755), 0);
	assert_true(scratch_has("a/b/c"));
	struct stat above, folder;
	assert_true(stat("a/b", &above) == 0 && stat("a/b/c", &folder) == 0);
	assert_int_equal(folder.st_mode & 0777, 0700);
	assert_int_equal(above.st_mode & 0700, 0700);
	assert_int_not_equal(above.st_mode & 0777, 0700);
	scratch_put("file", 1);
	assert_int_equal(outputs_make_folder(AT_FDCWD, "file", 0755), -ENOTDIR);
	assert_int_equal(outputs_make_folder(AT_FDCWD, "file/x", 0755), -ENOTDIR);
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 0777;
}

static void test_private_result_folder_is_closed_with_those_above(void **state)
{
	(void)state;
	const struct outputs_rules any = {0}, private = {.private = true};
	const char *objection;
	size_t taken;
	int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(outputs_make_result_folder(root, "a/b", &any, &taken, &objection), OUTPUTS_MADE);
	assert_int_equal(outputs_make_result_folder(root, "a/b", &any, &taken, &objection), 0);
	assert_true(mode_of("a") & 0077 && mode_of("a/b") & 0077);
	assert_int_equal(outputs_make_result_folder(root, "a/c", &private, &taken, &objection), OUTPUTS_MADE);
	assert_int_equal(mode_of("a"), 0700);
	assert_int_equal(mode_of("a/c"), 0700);
	assert_int_equal(outputs_close_result_folder(root, "a/b"), 0);
	assert_int_equal(mode_of("a/b"), 0700);
	assert_int_equal(outputs_close_result_folder(root, "a/missing/x"), 0);
	close(root);
}

static void assert_taken(int root, const char *path, const struct outputs_rules *rules, const char *part)
{
	const char *objection;
	size_t taken;
	assert_int_equal(outputs_make_result_folder(root, path, rules, &taken, &objection), OUTPUTS_TAKEN);
	assert_int_equal(taken, strlen(part));
	assert_null(objection);
}

static void test_new_result_folder_must_be_empty_and_its_path_without_links(void **state)
{
	(void)state;
	const struct outputs_rules strict = {.no_links = true, .unused = true}, own = {.no_links = true}, any = {0};
	const char *objection;
	size_t taken;
	int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(mkdir("used", 0755) == 0 && mkdir("used/empty", 0755) == 0 && mkdir("open", 0700) == 0);
	assert_true(chmod("open", 0777) == 0 && symlink("used", "link") == 0);
	scratch_put("file", 1);
	assert_taken(root, "used", &strict, "used");
	assert_taken(root, "link", &strict, "link");
	assert_taken(root, "link/new", &strict, "link");
	assert_taken(root, "file", &strict, "file");
	assert_taken(root, "file/new", &strict, "file");
	assert_taken(root, "open", &strict, "open");
	assert_false(scratch_has("used/new"));
	assert_int_equal(outputs_make_result_folder(root, "used/empty", &strict, &taken, &objection), 0);
	assert_int_equal(outputs_make_result_folder(root, "used/new", &strict, &taken, &objection), OUTPUTS_MADE);
	assert_int_equal(outputs_make_result_folder(root, "used", &own, &taken, &objection), 0);
	assert_taken(root, "link", &own, "link");
	assert_int_equal(outputs_make_result_folder(root, "open", &own, &taken, &objection), -EPERM);
	assert_int_equal(outputs_make_result_folder(root, "link/new", &any, &taken, &objection), 0);
	close(root);
}

static void test_no_file_gets_a_name_that_is_avoided_or_a_folder_in_it(void **state)
{
	(void)state;
	struct outputs o = {0};
	assert_int_equal(outputs_avoid(&o, "latest/x", strlen("latest")), 0);
	assert_string_equal(choose(&o, "latest.wav", 0), "latest.wav");
	assert_string_equal(choose(&o, "latest/x.wav", 1), "latest+x");
	assert_int_equal(outputs_avoid(&o, "latest+x", strlen("latest+x")), 0);
	assert_string_equal(choose(&o, "latest/x.wav", 1), "latest+x.wav");
	assert_string_equal(choose(&o, "latest/x.wav", 1), "latest+x.wav+2");
	outputs_finish(&o);
}

/* If each file tried all numbers again, this would take hours, and the test would exceed its time limit. */
static void test_many_files_that_want_the_same_folder_are_cheap(void **state)
{
	(void)state;
	struct outputs o = {0};
	const char *last = NULL;
	for (size_t i = 0; i < 500000; i++)
		last = choose(&o, "b/c.wav", i);
	assert_string_equal(last, "b/c.wav+499999");
	outputs_finish(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stem_is_the_name_without_its_last_extension),
		cmocka_unit_test(test_no_two_files_share_a_folder),
		cmocka_unit_test(test_no_file_gets_a_folder_that_contains_those_of_others),
		cmocka_unit_test(test_no_file_gets_a_folder_in_that_of_another),
		cmocka_unit_test(test_no_file_gets_a_folder_named_like_the_launchers_own_files),
		cmocka_unit_test(test_claimed_folder_stays_with_its_file),
		cmocka_unit_test(test_path_outside_the_output_folder_cannot_be_claimed),
		scratch_test(test_folders_are_made_with_those_above),
		scratch_test(test_private_result_folder_is_closed_with_those_above),
		scratch_test(test_new_result_folder_must_be_empty_and_its_path_without_links),
		cmocka_unit_test(test_no_file_gets_a_name_that_is_avoided_or_a_folder_in_it),
		cmocka_unit_test(test_many_files_that_want_the_same_folder_are_cheap),
	};
	return cmocka_run_group_tests_name("launch_outputs", tests, NULL, NULL);
}
