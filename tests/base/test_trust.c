/* SPDX-License-Identifier: MIT */
/* Executed files: which users could have created or replaced them. Cases with other users need root. */
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "support/host.h"
#include "support/scratch.h"

/* Unused user and group ids. */
#define USER  54321
#define OTHER 54322

static char program[256];

/* top/bin/program in the scratch directory, all of it world-readable. */
static int setup(void **state)
{
	if (scratch_enter(state) < 0)
		return -1;
	scratch_put("top/bin/program", 10);
	snprintf(program, sizeof(program), "%s/top/bin/program", scratch_path());
	return chmod(".", 0755) || chmod("top", 0755) || chmod("top/bin", 0755) || chmod("top/bin/program", 0755);
}

static void trusted(void)
{
	struct gd_error err = {0};
	if (trust_check_path(program, &err) < 0)
		check_failed(__FILE__, __LINE__, err.message);
}

/* The error names the path below the scratch directory that is refused, and why. */
static void refused(const char *path, const char *reason)
{
	struct gd_error err = {0};
	char words[512];
	snprintf(words, sizeof(words), "'%s/%s' %s", scratch_path(), path, reason);
	check_true(trust_check_path(program, &err) == -EPERM);
	check_contains(err.message, words);
}

static void change_mode(const char *path, mode_t mode)
{
	check_true(chmod(path, mode) == 0);
}

static void change_owner(const char *path, uid_t user, gid_t group)
{
	check_true(chown(path, user, group) == 0);
}

static void test_own_file_in_own_directory_is_trusted(void **state)
{
	(void)state;
	trusted();
	change_mode("top/bin/program", 0500);
	change_mode("top/bin", 0500);
	trusted();
	change_mode("top/bin", 0700);
}

static void test_file_or_directory_that_everybody_can_write_is_refused(void **state)
{
	(void)state;
	change_mode("top/bin/program", 0757);
	refused("top/bin/program", "can be written by everybody");
	change_mode("top/bin/program", 0755);
	change_mode("top/bin", 0757);
	refused("top/bin", "can be written by everybody");
	change_mode("top/bin", 01777); /* others cannot replace files there, but can add some */
	refused("top/bin", "can be written by everybody");
	change_mode("top/bin", 0755);
	trusted();
}

static void test_directory_above_may_be_writable_only_if_it_is_sticky(void **state)
{
	(void)state;
	change_mode("top", 0777);
	refused("top", "can be written by everybody");
	change_mode("top", 01777);
	trusted();
}

static void test_directory_is_trusted_like_the_one_of_a_file(void **state)
{
	(void)state;
	struct gd_error err = {0};
	char *directory = realpath("top/bin", NULL);
	assert_non_null(directory);
	assert_int_equal(trust_check_directory(directory, &err), 0);
	change_mode("top", 01777);
	assert_int_equal(trust_check_directory(directory, &err), 0);
	change_mode("top", 0777);
	assert_int_equal(trust_check_directory(directory, &err), -EPERM);
	change_mode("top", 0755);
	change_mode("top/bin", 01777);
	assert_int_equal(trust_check_directory(directory, &err), -EPERM);
	change_mode("top/bin", 0755);
	assert_int_equal(rename("top", "elsewhere"), 0);
	assert_int_equal(symlink("elsewhere", "top"), 0);
	assert_int_equal(trust_check_directory(directory, &err), -EPERM);
	free(directory);
}

static void test_link_or_directory_in_place_of_the_file_is_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	assert_int_equal(rename("top/bin/program", "top/bin/real"), 0);
	assert_int_equal(trust_check_path(program, &err), -ENOENT);
	assert_int_equal(symlink("real", "top/bin/program"), 0);
	refused("top/bin/program", "is a symbolic link");
	assert_int_equal(unlink("top/bin/program"), 0);
	assert_int_equal(mkdir("top/bin/program", 0700), 0);
	refused("top/bin/program", "is not a regular file");
	assert_int_equal(rmdir("top/bin/program"), 0);
	assert_int_equal(rename("top/bin/real", "top/bin/program"), 0);
	assert_int_equal(rename("top", "elsewhere"), 0);
	assert_int_equal(symlink("elsewhere", "top"), 0);
	refused("top", "is a symbolic link");
}

static void test_path_must_be_absolute_and_name_a_file(void **state)
{
	(void)state;
	assert_int_equal(trust_check_path("top/bin/program", NULL), -EINVAL);
	assert_int_equal(trust_check_path("", NULL), -EINVAL);
	assert_int_equal(trust_check_path("/", NULL), -EINVAL);
	assert_int_equal(trust_check_path("//", NULL), -EINVAL);
	assert_int_equal(trust_check_path("/nowhere/program", NULL), -ENOENT);
}

/* Sets an access list that lets `user` write: version 2, then tag, permissions and id of each entry. */
static bool let_write(const char *path, uint32_t user)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, permissions;
			uint32_t id;
		} entries[5];
	} list = {2, {{0x01, 7, UINT32_MAX}, {0x02, 7, user}, {0x04, 5, UINT32_MAX}, {0x10, 7, UINT32_MAX},
			     {0x20, 5, UINT32_MAX}}};
	return setxattr(path, "system.posix_acl_access", &list, sizeof(list), 0) == 0;
}

static void test_access_list_that_lets_others_write_is_refused(void **state)
{
	(void)state;
	if (!let_write("top/bin", OTHER))
		skip(); /* a file system without access lists */
	refused("top/bin", "can be written by others (it has an access list)");
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void test_file_or_directory_of_another_user_is_refused(void **state)
{
	(void)state;
	need_root();
	change_owner("top/bin/program", OTHER, OTHER);
	refused("top/bin/program", "belongs to another user");
	change_owner("top/bin/program", 0, 0);
	change_owner("top/bin", OTHER, OTHER);
	refused("top/bin", "belongs to another user");
	change_owner("top/bin", 0, 0);
	change_owner("top", OTHER, OTHER);
	refused("top", "belongs to another user");
	change_mode("top", 01777); /* its owner can replace its entries */
	refused("top", "belongs to another user");
}

static void test_group_of_others_must_not_write(void **state)
{
	(void)state;
	need_root();
	change_owner("top/bin", 0, OTHER);
	change_mode("top/bin", 0775);
	refused("top/bin", "can be written by its group");
	change_owner("top/bin", 0, 0); /* root's group has no other member */
	trusted();
}

static void advised(const char *path, bool by_name, const char *words)
{
	char remedy[TRUST_REMEDY_SIZE], expected[1024];
	int n = snprintf(expected, sizeof(expected), "%s%s", words, *words ? ", or " : "");
	assert_true(n >= 0 && (size_t)n < sizeof(expected));
	assert_string_equal(trust_remedy(path, by_name, remedy), expected);
}

/* A command for a part of a path would change another directory. */
static void test_remedy_is_complete_or_left_out(void **state)
{
	(void)state;
	char path[512], command[600], name[240];
	struct gd_error err;
	if (geteuid() == 0)
		change_owner("top", 0, OTHER);
	for (size_t length = 1; length < sizeof(name); length += 7) {
		memset(name, 'x', length);
		name[length] = '\0';
		snprintf(path, sizeof(path), "%s/top/%s", scratch_path(), name);
		snprintf(command, sizeof(command), "; check its content, then run chmod go-w %s, or stop", path);
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(chmod(path, 0777), 0);
		assert_int_equal(trust_refuse_path(path, false, "stop", &err, "'%s' is refused", path), -EPERM);
		bool has_command = strstr(err.message, "run chmod");
		assert_true(has_command || strstr(err.message, "is refused; stop"));
		if (has_command)
			check_contains(err.message, command);
		assert_true(length > 100 || has_command || strlen(path) > 150);
		assert_int_equal(rmdir(path), 0);
	}
}

/* Runs as an ordinary user, because the advice about files of root is for the administrator. */
static void test_remedy_names_each_path_once(void **state)
{
	(void)state;
	char words[512];
	const char *at = scratch_path();
	need_root();
	change_owner("top", USER, OTHER);
	change_owner("top/bin", USER, OTHER);
	change_owner("top/bin/program", USER, OTHER);
	check_equal(seteuid(USER), 0);
	advised("top/bin/program", true, "");
	change_mode("top/bin/program", 0775);
	change_mode("top/bin", 0775);
	change_mode("top", 0775);
	snprintf(words, sizeof(words), "check its content, then run chmod g-w %s/top/bin/program %s/top/bin %s/top", at,
		at, at);
	advised("top/bin/program", true, words);
	snprintf(words, sizeof(words), "check its content, then run chmod g-w %s/top/bin %s/top", at, at);
	advised("top/bin/missing", true, words);
	change_mode("top/bin", 01777);
	change_mode("top", 0755);
	snprintf(words, sizeof(words), "use a directory of your own in %s/top/bin", at);
	advised("top/bin/missing", true, words);
	advised("top/bin/missing/a/b", false, "");
	check_equal(seteuid(0), 0);
	/* The advice is never to lock everybody else out of a directory like /tmp. */
	change_owner("top/bin", 0, 0);
	change_owner("top", 0, OTHER);
	change_mode("top", 0775);
	snprintf(words, sizeof(words), "run chmod +t %s/top and use a directory of your own in %s/top/bin", at, at);
	advised("top/bin/missing", true, words);
	change_owner("top", OTHER, OTHER);
	snprintf(words, sizeof(words), "run this as the user with the id %d", OTHER);
	advised("top/bin/missing", true, words);
}

static void follows(const char *path, const char *end, bool foreign)
{
	char *real = NULL;
	bool is_foreign = !foreign;
	check_equal(trust_follow_links(path, &real, &is_foreign), 0);
	check_true(strcmp(real, end) == 0);
	check_true(is_foreign == foreign);
	free(real);
}

static void test_links_of_the_last_component_are_followed(void **state)
{
	(void)state;
	char absolute[300];
	snprintf(absolute, sizeof(absolute), "%s/top/first", scratch_path());
	assert_int_equal(symlink("bin/program", "top/first"), 0);
	assert_int_equal(symlink(absolute, "second"), 0);
	assert_int_equal(symlink("nowhere/missing", "dangling"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	follows("top/bin/program", "top/bin/program", false);
	follows("missing", "missing", false);
	follows("top/first", "top/bin/program", false);
	follows("second", program, false);
	follows("dangling", "nowhere/missing", false);
	char *real = NULL;
	bool foreign;
	assert_int_equal(trust_follow_links("loop", &real, &foreign), -ELOOP);
	assert_int_equal(trust_follow_links("top/bin/program/below", &real, &foreign), -ENOTDIR);
}

static void test_link_of_another_user_is_reported_wherever_it_is(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(symlink("top/bin/program", "last"), 0);
	assert_int_equal(symlink("last", "first"), 0);
	follows("first", "top/bin/program", false);
	assert_int_equal(lchown("last", OTHER, OTHER), 0);
	follows("first", "top/bin/program", true);
	assert_int_equal(lchown("last", 0, 0), 0);
	assert_int_equal(lchown("first", OTHER, OTHER), 0);
	follows("first", "top/bin/program", true);
}

/* Opens `path`; 0 if it is the directory `expected`, which may be NULL. */
static int opens(const char *path, bool check_above, const char *expected, struct gd_error *err)
{
	struct stat opened, there;
	int fd = -1;
	int r = trust_open_directory(path, check_above, &fd, err);
	if (r < 0) {
		assert_int_equal(fd, -1);
		return r;
	}
	assert_int_equal(fstat(fd, &opened) | stat(expected, &there), 0);
	assert_int_equal(opened.st_ino, there.st_ino);
	close(fd);
	return 0;
}

static void finds(const char *path, const char *folder, const char *name)
{
	struct stat opened, there;
	struct gd_error err = {0};
	char *found = NULL;
	int fd = -1;
	assert_int_equal(trust_open_parent(path, false, &fd, &found, &err), 0);
	assert_string_equal(found, name);
	assert_int_equal(fstat(fd, &opened) | stat(folder, &there), 0);
	assert_int_equal(opened.st_ino, there.st_ino);
	free(found);
	close(fd);
}

static void test_directory_of_a_file_is_opened_through_links_of_the_user(void **state)
{
	(void)state;
	struct gd_error err = {0};
	char *name = NULL;
	int fd = -1;
	scratch_write_text("top/file", "x");
	assert_int_equal(symlink("top", "way"), 0);
	assert_int_equal(symlink("../way/file", "top/link"), 0);
	assert_int_equal(symlink("way/link", "twice"), 0);
	assert_int_equal(symlink("way/new", "dangling"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	finds("top/file", "top", "file");
	finds("way/link", "top", "file");
	finds("twice", "top", "file");
	finds("dangling", "top", "new");
	finds("top/new", "top", "new");
	finds("new", ".", "new");
	assert_int_equal(trust_open_parent("loop", false, &fd, &name, &err), -ELOOP);
	assert_int_equal(trust_open_parent("/", false, &fd, &name, &err), -EISDIR);
	assert_int_equal(trust_open_parent("none/file", false, &fd, &name, &err), -ENOENT);
	assert_int_equal(trust_open_parent("top/file/below", false, &fd, &name, &err), -ENOTDIR);
	change_mode("top", 0777);
	assert_int_equal(trust_open_parent("twice", true, &fd, &name, &err), -EPERM);
	check_contains(err.message, "/top' can be written by everybody");
	change_mode("top", 0755);
	if (geteuid() == 0) {
		assert_int_equal(lchown("way", 54321, 54321), 0);
		assert_int_equal(trust_open_parent("twice", false, &fd, &name, &err), -EPERM);
		check_contains(err.message, "/way' is a symbolic link of another user");
	}
	assert_true(fd == -1 && !name);
}

static void test_directory_is_opened_through_links_of_the_user(void **state)
{
	(void)state;
	struct gd_error err = {0};
	char path[512], name[300];
	assert_int_equal(symlink("top/bin", "relative"), 0);
	assert_int_equal(symlink("../relative/../bin", "top/up"), 0);
	snprintf(path, sizeof(path), "%s//top/./up", scratch_path());
	assert_int_equal(symlink(path, "absolute"), 0);
	for (int check = 0; check < 2; check++) {
		assert_int_equal(opens("relative", check, "top/bin", &err), 0);
		assert_int_equal(opens("top/up/", check, "top/bin", &err), 0);
		assert_int_equal(opens("absolute/../..", check, ".", &err), 0);
		assert_int_equal(opens(path, check, "top/bin", &err), 0);
		assert_int_equal(opens("/", check, "/", &err), 0);
	}
	assert_int_equal(opens("absolute/none/more", false, NULL, &err), -ENOENT);
	snprintf(path, sizeof(path), "'%s/top/bin/none': No such file or directory", scratch_path());
	assert_string_equal(err.message, path);
	assert_int_equal(opens("relative/program", false, NULL, &err), -ENOTDIR);
	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(opens("loop", false, NULL, &err), -ELOOP);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(opens(name, false, NULL, &err), -ENAMETOOLONG);
}

static void test_directory_is_not_opened_through_links_of_another_user(void **state)
{
	(void)state;
	need_root();
	struct gd_error err = {0};
	char words[512];
	assert_int_equal(symlink("top", "first"), 0);
	assert_int_equal(symlink("first/bin", "last"), 0);
	assert_int_equal(opens("last", false, "top/bin", &err), 0);
	assert_int_equal(lchown("first", OTHER, OTHER), 0);
	for (int check = 0; check < 2; check++) {
		assert_int_equal(opens("last", check, NULL, &err), -EPERM);
		assert_int_equal(opens("first/bin/none", check, NULL, &err), -EPERM);
		assert_int_equal(opens("first", check, NULL, &err), -EPERM);
	}
	snprintf(words, sizeof(words), "'%s/first' is a symbolic link of another user", scratch_path());
	assert_string_equal(err.message, words);
}

static void test_directory_is_not_opened_where_others_can_rename_it(void **state)
{
	(void)state;
	struct gd_error err = {0};
	char words[512];
	change_mode("top", 0777);
	assert_int_equal(opens("top/bin", false, "top/bin", &err), 0);
	assert_int_equal(opens("top", true, "top", &err), 0); /* only trust_objection() checks the directory itself */
	assert_int_equal(opens("top/bin", true, NULL, &err), -EPERM);
	assert_int_equal(opens("top/none", true, NULL, &err), -EPERM);
	assert_int_equal(symlink("top/bin", "link"), 0);
	assert_int_equal(opens("link", true, NULL, &err), -EPERM);
	snprintf(words, sizeof(words), "'%s/top' can be written by everybody", scratch_path());
	assert_string_equal(err.message, words);
	change_mode("top", 01777);
	assert_int_equal(opens("link", true, "top/bin", &err), 0);
	assert_int_equal(opens("top/none", true, NULL, &err), -ENOENT);
}

static int become_user(void)
{
	check_true(setgid(USER) == 0 && setuid(USER) == 0);
	return 0;
}

static int user_trusts(void)
{
	become_user();
	trusted();
	return 0;
}

static int user_refuses_directory(void)
{
	become_user();
	refused("top/bin", "belongs to another user");
	return 0;
}

static int user_refuses_group(void)
{
	become_user();
	refused("top/bin", "can be written by its group");
	return 0;
}

static void test_only_root_and_the_user_are_trusted(void **state)
{
	(void)state;
	need_root();
	host_run(user_trusts);
	change_owner("top/bin", USER, USER);
	change_owner("top/bin/program", USER, USER);
	host_run(user_trusts);
	change_mode("top/bin", 0775); /* a group without a name is not known to be private */
	host_run(user_refuses_group);
	change_mode("top/bin", 0755);
	change_owner("top/bin", OTHER, OTHER);
	host_run(user_refuses_directory);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, scratch_leave)
	const struct CMUnitTest tests[] = {
		T(test_own_file_in_own_directory_is_trusted),
		T(test_file_or_directory_that_everybody_can_write_is_refused),
		T(test_directory_above_may_be_writable_only_if_it_is_sticky),
		T(test_directory_is_trusted_like_the_one_of_a_file),
		T(test_link_or_directory_in_place_of_the_file_is_refused),
		T(test_path_must_be_absolute_and_name_a_file),
		T(test_links_of_the_last_component_are_followed),
		T(test_link_of_another_user_is_reported_wherever_it_is),
		T(test_directory_of_a_file_is_opened_through_links_of_the_user),
		T(test_directory_is_opened_through_links_of_the_user),
		T(test_directory_is_not_opened_through_links_of_another_user),
		T(test_directory_is_not_opened_where_others_can_rename_it),
		T(test_access_list_that_lets_others_write_is_refused),
		T(test_file_or_directory_of_another_user_is_refused),
		T(test_group_of_others_must_not_write),
		T(test_remedy_is_complete_or_left_out),
		T(test_remedy_names_each_path_once),
		T(test_only_root_and_the_user_are_trusted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
