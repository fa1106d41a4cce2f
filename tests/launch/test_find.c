/* SPDX-License-Identifier: MIT */
#include "support/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_dispatch_launch.h"
#include "support/check.h"

static struct gd_files *find(const char *folder, struct gd_find_options o)
{
	struct gd_files *files = NULL;
	struct gd_error err = {0};
	o.size = sizeof(o);
	int r = gd_files_find(folder, &o, &files, &err);
	if (r < 0)
		print_message("%s\n", err.message);
	assert_int_equal(r, 0);
	return files;
}

static void assert_found(const struct gd_files *files, const char *expected)
{
	char text[4096] = "";
	for (size_t i = 0; i < files->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "|" : "", files->files[i]->path);
	assert_string_equal(text, expected);
}

static void test_default_pattern_is_wav_in_the_folder_alone(void **state)
{
	(void)state;
	scratch_put("in/b.wav", 10);
	scratch_put("in/a.wav", 20);
	scratch_put("in/c.mp3", 1);
	scratch_put("in/.hidden.wav", 1);
	scratch_put("in/deep/d.wav", 1);
	struct gd_files *files = NULL;
	assert_int_equal(gd_files_find("in", NULL, &files, NULL), 0);
	assert_found(files, "a.wav|b.wav");
	assert_int_equal(files->files[0]->size_bytes, 20);
	assert_true(files->files[0]->mtime_ns > 0);
	assert_int_equal(files->files[0]->known, 0);
	assert_int_equal(files->others, 1);
	assert_string_equal(files->other, "c.mp3");
	assert_int_equal(files->other_folders, 1);
	assert_int_equal(files->num_warnings, 0);
	assert_int_equal(files->folder[0], '/');
	gd_files_free(files);
}

static void test_several_patterns_and_folders_below_in_order_of_names(void **state)
{
	(void)state;
	static const char *const patterns[] = {"*.wav", "take[0-9].*", "?.ogg"};
	scratch_put("in/z.wav", 1);
	scratch_put("in/b/2.wav", 1);
	scratch_put("in/b/1.wav", 1);
	scratch_put("in/b/c/take7.raw", 1);
	scratch_put("in/a.ogg", 1);
	scratch_put("in/ab.ogg", 1);
	scratch_put("in/.git/x.wav", 1);
	struct gd_files *files =
		find("in", (struct gd_find_options){.patterns = patterns, .num_patterns = 3, .recursive = 1});
	assert_found(files, "a.ogg|b/1.wav|b/2.wav|b/c/take7.raw|z.wav");
	gd_files_free(files);
}

static void test_names_of_any_bytes_are_found_and_sorted(void **state)
{
	(void)state;
	scratch_put("in/-x.wav", 1);
	scratch_put("in/a b\".wav", 1);
	scratch_put("in/new\nline.wav", 1);
	scratch_put("in/\xff\xfe.wav", 1);
	scratch_put("in/recording-000000002.wav", 1);
	scratch_put("in/recording-000000001.wav", 1);
	struct gd_files *files = find("in", (struct gd_find_options){0});
	assert_found(
		files, "-x.wav|a b\".wav|new\nline.wav|recording-000000001.wav|recording-000000002.wav|\xff\xfe.wav");
	gd_files_free(files);
}

static void test_many_names_are_sorted(void **state)
{
	(void)state;
	mkdir("in", 0755);
	for (int i = 0; i < 3000; i++) {
		char path[64];
		snprintf(path, sizeof(path), "in/some-prefix-%d.wav", (i * 7919) % 3000);
		scratch_put(path, 1);
	}
	struct gd_files *files = find("in", (struct gd_find_options){0});
	assert_int_equal(files->count, 3000);
	for (size_t i = 1; i < files->count; i++)
		assert_true(strcmp(files->files[i - 1]->path, files->files[i]->path) < 0);
	gd_files_free(files);
}

static void test_links_are_followed_and_loops_end(void **state)
{
	(void)state;
	scratch_put("in/a/x.wav", 1);
	scratch_put("elsewhere/y.wav", 1);
	assert_int_equal(symlink("..", "in/a/up"), 0);
	assert_int_equal(symlink("../elsewhere", "in/other"), 0);
	assert_int_equal(symlink("a/x.wav", "in/linked.wav"), 0);
	assert_int_equal(symlink("nowhere", "in/dangling.wav"), 0);
	assert_int_equal(symlink("self.wav", "in/self.wav"), 0);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "a/x.wav|linked.wav|other/y.wav");
	assert_int_equal(files->num_warnings, 3);
	int loops = 0, nowhere = 0;
	for (size_t i = 0; i < files->num_warnings; i++) {
		loops += strstr(files->warnings[i], "a/up") && strstr(files->warnings[i], "link");
		nowhere += strstr(files->warnings[i], "dangling.wav") && strstr(files->warnings[i], "nowhere");
	}
	assert_int_equal(loops, 1);
	assert_int_equal(nowhere, 1);
	gd_files_free(files);
}

static void test_only_regular_files_count(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	assert_int_equal(mkfifo("in/pipe.wav", 0644), 0);
	mkdir("in/folder.wav", 0755);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "a.wav");
	gd_files_free(files);
}

/* In a child that is not root: root may read everything. */
static void test_folder_that_cannot_be_read_is_named_and_the_rest_found(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("in/secret/b.wav", 1);
	scratch_put("in/z.wav", 1);
	chmod("in/secret", 0);
	chmod(".", 0755);
	pid_t pid = fork();
	if (pid == 0) {
		if (getuid() == 0 && setuid(65534) < 0)
			_exit(10);
		struct gd_files *files = NULL;
		struct gd_find_options o = {.size = sizeof(o), .recursive = 1};
		if (gd_files_find("in", &o, &files, NULL) < 0)
			_exit(1);
		_exit(files->count == 2 && files->num_warnings == 1 && strstr(files->warnings[0], "'secret'") &&
					strstr(files->warnings[0], "Permission denied")
				? 0
				: 2);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	chmod("in/secret", 0755);
	assert_int_equal(status, 0);
}

static void test_excluded_folder_is_not_searched(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	scratch_put("in/out/b.wav", 1);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1, .exclude = "in/out"});
	assert_found(files, "a.wav");
	gd_files_free(files);
	files = find("in", (struct gd_find_options){.recursive = 1, .exclude = "in/not there"});
	assert_found(files, "a.wav|out/b.wav");
	gd_files_free(files);
}

static bool always(void *context)
{
	++*(int *)context;
	return true;
}

static void test_missing_folder_bad_pattern_and_stop_are_errors_with_a_reason(void **state)
{
	(void)state;
	struct gd_files *files = NULL;
	struct gd_error err = {0};
	assert_int_equal(gd_files_find("nowhere", NULL, &files, &err), -ENOENT);
	check_contains(err.message, "nowhere");
	scratch_put("file", 1);
	assert_int_equal(gd_files_find("file", NULL, &files, &err), -ENOTDIR);
	for (int i = 0; i < 2000; i++) {
		char path[32];
		snprintf(path, sizeof(path), "in/%d.wav", i);
		scratch_put(path, 0);
	}
	static const char *const bad[] = {"a/*.wav"};
	int asked = 0;
	struct gd_find_options o = {.size = sizeof(o), .patterns = bad, .num_patterns = 1};
	assert_int_equal(gd_files_find("in", &o, &files, &err), -EINVAL);
	check_contains(err.message, "a/*.wav");
	o = (struct gd_find_options){.size = sizeof(o), .stopped = always, .context = &asked};
	assert_int_equal(gd_files_find("in", &o, &files, &err), -ECANCELED);
	assert_int_equal(asked, 1);
	o = (struct gd_find_options){.size = 3};
	assert_int_equal(gd_files_find("in", &o, &files, &err), -EINVAL);
	assert_null(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_default_pattern_is_wav_in_the_folder_alone),
		scratch_test(test_several_patterns_and_folders_below_in_order_of_names),
		scratch_test(test_names_of_any_bytes_are_found_and_sorted),
		scratch_test(test_many_names_are_sorted),
		scratch_test(test_links_are_followed_and_loops_end),
		scratch_test(test_only_regular_files_count),
		scratch_test(test_folder_that_cannot_be_read_is_named_and_the_rest_found),
		scratch_test(test_excluded_folder_is_not_searched),
		scratch_test(test_missing_folder_bad_pattern_and_stop_are_errors_with_a_reason),
	};
	return cmocka_run_group_tests_name("launch_find", tests, NULL, NULL);
}
