/* SPDX-License-Identifier: MIT */
/* Files that links lead to: the users who chose them, and whether these users can read them. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/trust.h"
#include "support/host.h"
#include "support/scratch.h"

/* Unused user and group ids. */
#define USER  54321
#define OTHER 54322

static const char program[] = "top/bin/program";

/* top/bin/program in the scratch directory, all of it world-readable. */
static int setup(void **state)
{
	if (scratch_enter(state) < 0)
		return -1;
	scratch_put(program, 10);
	return chmod(".", 0755) || chmod("top", 0755) || chmod("top/bin", 0755) || chmod(program, 0644);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void link_of(uid_t user, const char *target, const char *path)
{
	check_true(symlink(target, path) == 0 && lchown(path, user, user) == 0);
}

/* Opens `path`, which must be the file `expected`. */
static uid_t open_any(int dir_fd, const char *path, const char *expected, bool *ret_restricted)
{
	struct stat opened, there;
	int fd = -1;
	uid_t chooser = 1;
	check_equal(trust_open_any(dir_fd, path, &fd, &chooser, ret_restricted), 0);
	check_true(fstat(fd, &opened) == 0 && stat(expected, &there) == 0 && opened.st_ino == there.st_ino);
	close(fd);
	return chooser;
}

static uid_t chooser_of(int dir_fd, const char *path, const char *expected)
{
	return open_any(dir_fd, path, expected, NULL);
}

/* Whether the owner of links on the path may not be allowed to read the program. */
static bool is_restricted(const char *path)
{
	bool restricted;
	check_true(open_any(AT_FDCWD, path, program, &restricted) != 0);
	return restricted;
}

static void test_any_file_is_opened_and_who_chose_it_is_told(void **state)
{
	(void)state;
	int fd = -1, top = open("top", O_PATH | O_DIRECTORY | O_CLOEXEC);
	uid_t chooser;
	assert_int_equal(symlink("bin", "top/inner") | symlink("top/inner/program", "link"), 0);
	assert_int_equal(symlink("../link", "top/outer"), 0);
	assert_int_equal(chooser_of(AT_FDCWD, "link", program), 0);
	assert_int_equal(chooser_of(top, "outer", program), 0);
	assert_int_equal(chooser_of(top, "bin", "top/bin"), 0);
	assert_int_equal(trust_open_any(top, "bin/program/below", &fd, &chooser, NULL), -ENOTDIR);
	assert_int_equal(trust_open_any(top, "none", &fd, &chooser, NULL), -ENOENT);
	assert_int_equal(trust_open_directory_at(top, "inner", true, &fd, NULL), 0);
	close(fd);
	fd = -1;
	if (geteuid() == 0) {
		assert_int_equal(lchown("top/inner", OTHER, OTHER), 0);
		assert_int_equal(chooser_of(top, "outer", program), OTHER);
		assert_int_equal(chooser_of(top, "inner", "top/bin"), OTHER);
		assert_int_equal(lchown("link", USER, USER), 0);
		assert_int_equal(chooser_of(top, "outer", program), TRUST_SEVERAL_USERS);
		assert_int_equal(trust_open_directory_at(top, "inner", false, &fd, NULL), -EPERM);
	}
	assert_int_equal(fd, -1);
	close(top);
}

static void test_path_without_links_of_another_user_is_not_restricted(void **state)
{
	(void)state;
	bool restricted = true;
	assert_int_equal(chmod(".", 0700) | chmod("top", 0700) | chmod(program, 0600), 0);
	assert_int_equal(symlink(program, "own"), 0);
	assert_int_equal(open_any(AT_FDCWD, "own", program, &restricted), 0);
	assert_false(restricted);
}

static void test_each_mode_behind_a_link_of_another_user_counts(void **state)
{
	(void)state;
	need_root();
	static const struct {
		const char *path;
		mode_t mode;
		bool restricted;
	} cases[] = {
		{"top", 0711, false}, {"top", 0750, true}, {"top", 0705, true}, {"top/bin", 0754, true},
		{program, 0444, false}, {program, 0640, true}, {program, 0604, true},
		{".", 0750, true}, /* the relative link is in it */
	};
	link_of(OTHER, program, "link");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stat before;
		assert_int_equal(stat(cases[i].path, &before) | chmod(cases[i].path, cases[i].mode), 0);
		assert_int_equal(is_restricted("link"), cases[i].restricted);
		assert_int_equal(chmod(cases[i].path, before.st_mode & 0777), 0);
	}
}

static void test_directories_before_the_link_do_not_count(void **state)
{
	(void)state;
	need_root();
	link_of(OTHER, "program", "top/bin/link");
	link_of(OTHER, "../bin/program", "top/bin/up");
	assert_int_equal(chmod("top", 0700), 0);
	assert_false(is_restricted("top/bin/link"));
	assert_true(is_restricted("top/bin/up")); /* comes back to it */
}

static void test_absolute_links_begin_at_the_root(void **state)
{
	(void)state;
	need_root();
	char path[300];
	bool restricted;
	snprintf(path, sizeof(path), "%s/%s", scratch_path(), program);
	link_of(0, path, "own");
	link_of(OTHER, "own", "link");
	link_of(OTHER, "/etc/passwd", "public");
	assert_int_equal(chmod("top", 0750), 0);
	assert_true(is_restricted("link"));
	assert_int_equal(open_any(AT_FDCWD, "public", "/etc/passwd", &restricted), OTHER);
	assert_false(restricted);
}

/* Adds an access list that denies OTHER all access: version 2, then tag, permissions and id of each entry. */
static bool deny(const char *path)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, permissions;
			uint32_t id;
		} entries[5];
	} list = {2, {{0x01, 7, UINT32_MAX}, {0x02, 0, OTHER}, {0x04, 5, UINT32_MAX}, {0x10, 5, UINT32_MAX},
			     {0x20, 5, UINT32_MAX}}};
	return setxattr(path, "system.posix_acl_access", &list, sizeof(list), 0) == 0;
}

static void test_access_list_restricts(void **state)
{
	(void)state;
	need_root();
	link_of(OTHER, program, "link");
	if (!deny(program))
		skip(); /* a file system without access lists */
	assert_true(is_restricted("link"));
	assert_int_equal(removexattr(program, "system.posix_acl_access"), 0);
	assert_false(is_restricted("link"));
	assert_true(deny("top"));
	assert_true(is_restricted("link"));
}

static void test_link_in_proc_can_lead_another_process_elsewhere(void **state)
{
	(void)state;
	need_root();
	bool restricted;
	link_of(OTHER, "/proc/self/cwd/top/bin/program", "link");
	link_of(0, "/proc/self/cwd/top/bin/program", "own");
	assert_int_equal(chown(program, OTHER, OTHER), 0);
	assert_int_equal(open_any(AT_FDCWD, "link", program, &restricted), TRUST_SEVERAL_USERS);
	assert_true(restricted);
	assert_int_equal(chooser_of(AT_FDCWD, "own", program), 0);
}

static int open_in_user_namespace(void)
{
	check_true(setgid(USER) == 0 && setuid(USER) == 0);
	if (unshare(CLONE_NEWUSER) == 0) /* not allowed everywhere */
		check_true(chooser_of(AT_FDCWD, "link", program) == TRUST_SEVERAL_USERS);
	return 0;
}

static void test_users_without_an_id_in_this_namespace_are_several(void **state)
{
	(void)state;
	need_root();
	link_of(OTHER, program, "link");
	host_run(open_in_user_namespace);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, scratch_leave)
	const struct CMUnitTest tests[] = {
		T(test_any_file_is_opened_and_who_chose_it_is_told),
		T(test_path_without_links_of_another_user_is_not_restricted),
		T(test_each_mode_behind_a_link_of_another_user_counts),
		T(test_directories_before_the_link_do_not_count),
		T(test_absolute_links_begin_at_the_root),
		T(test_access_list_restricts),
		T(test_link_in_proc_can_lead_another_process_elsewhere),
		T(test_users_without_an_id_in_this_namespace_are_several),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
