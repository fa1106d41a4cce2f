/* SPDX-License-Identifier: MIT */
/* Files that links lead to: the users who chose them or can replace them, and whether these users can read them. Needs
 * root. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
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
	struct trust_way way = TRUST_WAY_INIT;
	check_equal(trust_open_any(dir_fd, path, &fd, &way), 0);
	check_true(fstat(fd, &opened) == 0 && stat(expected, &there) == 0 && opened.st_ino == there.st_ino);
	close(fd);
	if (ret_restricted)
		*ret_restricted = way.restricted;
	return way.chooser;
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

static void test_any_file_is_opened_and_its_chooser_is_reported(void **state)
{
	(void)state;
	int fd = -1, top = open("top", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct trust_way way = TRUST_WAY_INIT;
	assert_int_equal(symlink("bin", "top/inner") | symlink("top/inner/program", "link"), 0);
	assert_int_equal(symlink("../link", "top/outer"), 0);
	assert_int_equal(chooser_of(AT_FDCWD, "link", program), 0);
	assert_int_equal(chooser_of(top, "outer", program), 0);
	assert_int_equal(chooser_of(top, "bin", "top/bin"), 0);
	assert_int_equal(trust_open_any(top, "bin/program/below", &fd, &way), -ENOTDIR);
	assert_int_equal(trust_open_any(top, "none", &fd, &way), -ENOENT);
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

/* Whether another user can make the path lead elsewhere. */
static bool is_replaceable(const char *path)
{
	struct trust_way way = TRUST_WAY_INIT;
	int fd = -1;
	check_equal(trust_open_any(AT_FDCWD, path, &fd, &way), 0);
	close(fd);
	return way.replaceable;
}

static void test_each_directory_above_a_file_can_make_it_replaceable(void **state)
{
	(void)state;
	need_root();
	static const struct {
		const char *path;
		uid_t user;
		mode_t mode;
		bool replaceable;
	} cases[] = {
		{"top", 0, 0700, false}, {"top", 0, 0775, true}, {"top", 0, 0757, true}, {"top", 0, 01777, false},
		{"top", OTHER, 0755, true}, {"top/bin", 0, 0775, true}, {"top/bin", OTHER, 0755, true},
		{"top/bin", 0, 01777, true}, {program, OTHER, 0666, false}, /* the caller examines the file itself */
	};
	assert_int_equal(symlink("top/bin/program", "own") | symlink("bin", "top/way"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stat before;
		assert_int_equal(stat(cases[i].path, &before), 0);
		assert_int_equal(chown(cases[i].path, cases[i].user, OTHER) | chmod(cases[i].path, cases[i].mode), 0);
		assert_int_equal(is_replaceable("own"), cases[i].replaceable);
		/* Another user may have renamed the link "way" to this name in a sticky directory. */
		assert_int_equal(is_replaceable("top/way/program"), cases[i].replaceable || cases[i].mode & S_ISVTX);
		assert_int_equal(chown(cases[i].path, 0, 0) | chmod(cases[i].path, before.st_mode & 0777), 0);
	}
	assert_int_equal(chmod("top/bin", 01777) | chown(program, OTHER, OTHER), 0);
	assert_true(is_replaceable("own")); /* by its owner */
	link_of(OTHER, "own", "link");
	assert_int_equal(chmod("top/bin", 0755), 0);
	assert_true(is_replaceable("link"));
}

static void test_link_of_another_user_has_a_lower_limit_of_components(void **state)
{
	(void)state;
	need_root();
	char target[1024] = "";
	int fd = -1;
	struct trust_way way = TRUST_WAY_INIT;
	for (int i = 0; i < 10; i++)
		strcat(target, "top/../");
	strcat(target, program);
	link_of(OTHER, target, "short");
	link_of(OTHER, "short", "again");
	assert_int_equal(chooser_of(AT_FDCWD, "again", program), OTHER);
	for (int i = 0; i < 20; i++)
		strcat(strcpy(target + strlen(target) - strlen(program), "top/../"), program);
	link_of(0, target, "own");
	link_of(OTHER, target, "long");
	assert_int_equal(chooser_of(AT_FDCWD, "own", program), 0);
	assert_int_equal(trust_open_any(AT_FDCWD, "long", &fd, &way), -ELOOP);
}

static bool is_open(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	check_true(fd >= 0);
	bool open = trust_is_open_to_others(fd);
	close(fd);
	return open;
}

static void test_directory_is_open_if_no_directory_above_it_excludes_others(void **state)
{
	(void)state;
	need_root();
	static const struct {
		const char *path;
		uid_t user;
		gid_t group;
		mode_t mode;
		bool open;
	} cases[] = {
		{"top/bin", 0, OTHER, 0755, true},
		{"top/bin", 0, OTHER, 0700, false},
		{"top/bin", 0, OTHER, 0750, true},
		{"top/bin", 0, OTHER, 0704, true},
		{"top/bin", 0, OTHER, 0701, true},
		{"top/bin", OTHER, OTHER, 0700, true},
		{"top/bin", 0, 0, 0750, false}, /* the private group of root */
		{"top", 0, OTHER, 0700, false},
		{"top", 0, OTHER, 0744, false},
		{"top", 0, OTHER, 0710, true},
		{".", 0, OTHER, 0700, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(chown(cases[i].path, cases[i].user, cases[i].group), 0);
		assert_int_equal(chmod(cases[i].path, cases[i].mode), 0);
		assert_int_equal(is_open("top/bin"), cases[i].open);
		assert_int_equal(chown(cases[i].path, 0, 0) | chmod(cases[i].path, 0755), 0);
	}
}

/* Whether those who may have put top/bin there can read it. */
static bool is_known(void)
{
	int fd = open("top/bin", O_PATH | O_DIRECTORY | O_CLOEXEC);
	check_true(fd >= 0);
	bool known = trust_is_known_to_movers(fd);
	close(fd);
	return known;
}

static void test_directory_that_others_may_have_put_there_must_be_open_to_all(void **state)
{
	(void)state;
	need_root();
	static const struct {
		mode_t here, top, bin;
		bool known;
	} cases[] = {
		{0755, 0755, 0700, true}, /* nobody else could have put it there */
		{0755, 0755, 0770, true},
		{0755, 01777, 0700, true},
		{0755, 0777, 0755, true},
		{0755, 0777, 0750, false},
		{0755, 0777, 0705, false},
		{0755, 0777, 0711, false},
		{0755, 0770, 0755, true}, /* users who can write `top` can enter it */
		{0777, 0755, 0755, true},
		{0777, 0711, 0755, true},
		{0777, 0750, 0755, false}, /* `top` itself could have been put there */
		{0777, 0770, 0755, false},
		{0777, 0755, 0750, false},
	};
	assert_int_equal(chown("top", 0, OTHER), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(chmod(".", cases[i].here) | chmod("top", cases[i].top), 0);
		assert_int_equal(chmod("top/bin", cases[i].bin), 0);
		assert_int_equal(is_known(), cases[i].known);
	}
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
	assert_int_equal(chmod(".", 0777), 0);
	assert_false(is_known());
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

static void test_users_without_an_id_in_this_namespace_count_as_several_users(void **state)
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
		T(test_any_file_is_opened_and_its_chooser_is_reported),
		T(test_path_without_links_of_another_user_is_not_restricted),
		T(test_each_mode_behind_a_link_of_another_user_counts),
		T(test_directories_before_the_link_do_not_count),
		T(test_absolute_links_begin_at_the_root),
		T(test_each_directory_above_a_file_can_make_it_replaceable),
		T(test_link_of_another_user_has_a_lower_limit_of_components),
		T(test_directory_is_open_if_no_directory_above_it_excludes_others),
		T(test_directory_that_others_may_have_put_there_must_be_open_to_all),
		T(test_access_list_restricts),
		T(test_link_in_proc_can_lead_another_process_elsewhere),
		T(test_users_without_an_id_in_this_namespace_count_as_several_users),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
