/* SPDX-License-Identifier: MIT */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

static void test_warnings_are_limited(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	for (int i = 0; i < 1010; i++) {
		char name[32];
		snprintf(name, sizeof(name), "in/%04d.wav", i);
		assert_int_equal(symlink("none", name), 0);
	}
	struct gd_files *files = find("in", (struct gd_find_options){0});
	assert_found(files, "a.wav");
	assert_int_equal(files->num_warnings, 1001);
	assert_string_equal(files->warnings[1000], "10 more files or folders skipped without a warning");
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
		nowhere +=
			strstr(files->warnings[i], "dangling.wav") && strstr(files->warnings[i], "the link is broken");
	}
	assert_int_equal(loops, 1);
	assert_int_equal(nowhere, 1);
	gd_files_free(files);
}

/* 2^20 paths lead to the file through links, and one without. */
static void test_folder_is_read_once_behind_links(void **state)
{
	(void)state;
	char path[64], target[64];
	scratch_put("in/0/x.wav", 1);
	for (int depth = 1; depth <= 20; depth++) {
		snprintf(path, sizeof(path), "d%d", depth);
		assert_int_equal(mkdir(path, 0755), 0);
		for (char side = 'a'; side <= 'b'; side++) {
			snprintf(path, sizeof(path), "d%d/%c", depth, side);
			snprintf(target, sizeof(target), depth == 1 ? "../in/0" : "../d%d", depth - 1);
			assert_int_equal(symlink(target, path), 0);
		}
	}
	assert_int_equal(symlink("../d20", "in/many"), 0);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "0/x.wav");
	assert_int_equal(files->num_warnings, 21);
	check_contains(files->warnings[0], "it was already found through another path");
	gd_files_free(files);
	/* Links come first in the order of names: their targets are found there, too. */
	assert_int_equal(rename("in/0", "in/zero"), 0);
	assert_int_equal(symlink("zero", "in/0"), 0);
	files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "0/x.wav|zero/x.wav");
	gd_files_free(files);
}

static void test_links_that_another_user_has_chosen_are_left_out(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	scratch_put("in/x.wav", 1);
	scratch_put("secret/key.wav", 1);
	scratch_put("theirs.wav", 1);
	assert_int_equal(chown("theirs.wav", 54321, 54321), 0);
	assert_int_equal(symlink("secret", "way") | symlink("theirs.wav", "fine"), 0);
	assert_int_equal(lchown("way", 54321, 54321) | lchown("fine", 54321, 54321), 0);
	assert_int_equal(symlink("../way", "in/folder") | symlink("../way/key.wav", "in/key.wav"), 0);
	assert_int_equal(symlink("../fine", "in/fine.wav") | symlink("../secret/key.wav", "in/own.wav"), 0);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "fine.wav|own.wav|x.wav");
	assert_int_equal(files->num_warnings, 2);
	assert_int_equal(files->skipped, 2);
	for (size_t i = 0; i < files->num_warnings; i++)
		check_contains(files->warnings[i], "; create the link yourself, or set trust_input to follow it");
	gd_files_free(files);
	files = find("in", (struct gd_find_options){.recursive = 1, .trust_input = 1});
	assert_found(files, "fine.wav|folder/key.wav|key.wav|own.wav|x.wav");
	assert_int_equal(files->num_warnings, 0);
	assert_int_equal(files->skipped, 0);
	gd_files_free(files);
	/* A third user's link to that link: its owner may not be allowed to read the file. */
	assert_int_equal(lchown("in/fine.wav", 54322, 54322), 0);
	files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "own.wav|x.wav");
	gd_files_free(files);
}

static void test_loops_of_links_of_another_user_end(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	scratch_put("in/x.wav", 1);
	scratch_put("other/y.wav", 1);
	assert_int_equal(symlink("../other", "in/there") | symlink("../in", "other/back") | symlink(".", "in/here"), 0);
	assert_int_equal(lchown("in/there", 54321, 54321) | lchown("other/back", 54321, 54321), 0);
	assert_int_equal(lchown("in/here", 54321, 54321), 0);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1, .trust_input = 1});
	assert_found(files, "there/y.wav|x.wav");
	assert_int_equal(files->num_warnings, 2); /* the loops; everything in them was found */
	assert_int_equal(files->skipped, 0);
	gd_files_free(files);
}

/* Folders of this name inside each other, made without a path that would be too long. */
static void make_deep(const char *where, const char *name, int levels)
{
	int fd = open(where, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < levels; i++) {
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		int below = openat(fd, name, O_RDONLY | O_DIRECTORY);
		assert_true(below >= 0);
		close(fd);
		fd = below;
	}
	int file = openat(fd, "deepest.wav", O_CREAT | O_WRONLY, 0644);
	assert_true(file >= 0);
	close(file);
	close(fd);
}

static void test_paths_that_are_too_deep_or_too_long_are_left_out(void **state)
{
	(void)state;
	char name[251];
	memset(name, 'x', 250);
	name[250] = '\0';
	scratch_put("in/a.wav", 1);
	scratch_put("in/deep/b.wav", 1);
	scratch_put("in/long/c.wav", 1);
	make_deep("in/deep", "d", 300);
	make_deep("in/long", name, 17);
	struct gd_files *files = find("in", (struct gd_find_options){.recursive = 1});
	assert_found(files, "a.wav|deep/b.wav|long/c.wav");
	assert_int_equal(files->num_warnings, 2);
	assert_non_null(strstr(files->warnings[0], "nested folders"));
	assert_non_null(strstr(files->warnings[1], "too long"));
	gd_files_free(files);
	assert_int_equal(system("rm -rf in/long"), 0); /* its paths are too long for nftw() */
}

static void test_links_with_thousands_of_components_are_not_followed(void **state)
{
	(void)state;
	char target[4096] = "";
	scratch_put("in/y/a.txt", 1);
	scratch_put("in/a.wav", 1);
	for (size_t i = 0; i < 650; i++)
		strcat(target, "y/../");
	strcpy(target + 5 * 650, "second");
	assert_int_equal(symlink(target, "in/slow.wav"), 0);
	strcpy(target + 5 * 650, "a.wav");
	assert_int_equal(symlink(target, "in/second"), 0);
	memset(target, '/', sizeof(target));
	for (size_t i = 0; i < 1900; i++)
		target[2 * i] = '.';
	strcpy(target + 2 * 1900, "a.wav");
	assert_int_equal(symlink(target, "in/dots.wav"), 0);
	struct gd_files *files = find("in", (struct gd_find_options){0});
	assert_found(files, "a.wav|dots.wav");
	assert_int_equal(files->num_warnings, 1);
	assert_non_null(strstr(files->warnings[0], "slow.wav"));
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
		scratch_test(test_warnings_are_limited),
		scratch_test(test_names_of_any_bytes_are_found_and_sorted),
		scratch_test(test_many_names_are_sorted),
		scratch_test(test_links_are_followed_and_loops_end),
		scratch_test(test_folder_is_read_once_behind_links),
		scratch_test(test_links_that_another_user_has_chosen_are_left_out),
		scratch_test(test_loops_of_links_of_another_user_end),
		scratch_test(test_paths_that_are_too_deep_or_too_long_are_left_out),
		scratch_test(test_links_with_thousands_of_components_are_not_followed),
		scratch_test(test_only_regular_files_count),
		scratch_test(test_folder_that_cannot_be_read_is_named_and_the_rest_found),
		scratch_test(test_excluded_folder_is_not_searched),
		scratch_test(test_missing_folder_bad_pattern_and_stop_are_errors_with_a_reason),
	};
	return cmocka_run_group_tests_name("launch_find", tests, NULL, NULL);
}
