/* SPDX-License-Identifier: MIT */
/* Everything in a directory: which users could have written it. Cases with other users need root. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/trust.h"
#include "support/scratch.h"

/* An unused user id. */
#define OTHER 54322

/* top/a/b/file and top/skipped/file */
static int setup(void **state)
{
	if (scratch_enter(state) < 0)
		return -1;
	scratch_put("top/a/b/file", 10);
	scratch_put("top/skipped/file", 10);
	return chmod(".", 0755) || chmod("top", 0755) || chmod("top/a", 0755) || chmod("top/a/b", 0755);
}

static int check(struct gd_error *err)
{
	int fd = open("top", O_PATH | O_DIRECTORY | O_CLOEXEC);
	check_true(fd >= 0);
	int r = trust_check_tree(fd, "skipped", err);
	close(fd);
	return r;
}

static void trusted(void)
{
	struct gd_error err = {0};
	if (check(&err) < 0)
		check_failed(__FILE__, __LINE__, err.message);
}

static void refused(const char *path, const char *reason)
{
	struct gd_error err = {0};
	char words[512];
	snprintf(words, sizeof(words), "'%s/%s' %s", scratch_path(), path, reason);
	check_equal(check(&err), -EPERM);
	check_contains(err.message, words);
}

static void test_files_and_directories_at_any_depth_are_checked(void **state)
{
	(void)state;
	static const char *const paths[] = {"top", "top/a", "top/a/b", "top/a/b/file"};
	trusted();
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		check_equal(chmod(paths[i], 0757), 0);
		refused(paths[i], "can be written by everybody");
		check_equal(chmod(paths[i], 01777), 0);
		refused(paths[i], "can be written by everybody");
		check_equal(chmod(paths[i], 0755), 0);
	}
	check_equal(chmod("top/skipped", 0777), 0);
	trusted();
	check_equal(mkdir("top/a/skipped", 0755), 0);
	check_equal(chmod("top/a/skipped", 0777), 0);
	refused("top/a/skipped", "can be written by everybody");
}

static void test_links_lead_to_what_is_checked(void **state)
{
	(void)state;
	scratch_put("outside/folder/file", 10);
	check_equal(chmod("outside", 0755) | chmod("outside/folder", 0755), 0);
	check_equal(symlink("../../outside/folder", "top/a/link"), 0);
	check_equal(symlink("..", "top/a/b/up"), 0);
	check_equal(symlink("../a/link/file", "top/a/again"), 0);
	trusted();
	check_equal(chmod("outside/folder/file", 0666), 0);
	refused("outside/folder/file", "can be written by everybody");
	check_equal(chmod("outside/folder/file", 0644), 0);
	check_equal(chmod("outside", 0777), 0);
	refused("outside", "can be written by everybody");
	check_equal(chmod("outside", 01777), 0);
	trusted();
}

static void test_link_to_a_missing_file_is_refused_where_others_can_create_it(void **state)
{
	(void)state;
	check_equal(mkdir("sticky", 0755), 0);
	check_equal(symlink("../sticky/missing", "top/link"), 0);
	trusted();
	check_equal(chmod("sticky", 01777), 0);
	refused("sticky", "can be written by everybody");
	check_equal(unlink("top/link"), 0);
	check_equal(symlink("link", "top/link"), 0);
	check_equal(check(NULL), -ELOOP);
}

static void test_single_file_or_a_missing_one_is_checked(void **state)
{
	(void)state;
	char path[256];
	snprintf(path, sizeof(path), "%s/top/a/b/file", scratch_path());
	check_equal(trust_check_target(path, NULL), 0);
	check_equal(chmod("top/a/b/file", 0666), 0);
	check_equal(trust_check_target(path, NULL), -EPERM);
	check_equal(unlink("top/a/b/file"), 0);
	check_equal(trust_check_target(path, NULL), 0);
	check_equal(chmod("top/a/b", 01777), 0);
	check_equal(trust_check_target(path, NULL), -EPERM);
}

static void test_directories_without_end_are_refused(void **state)
{
	(void)state;
	char path[1024] = "top";
	for (int i = 0; i < 120; i++) {
		strcat(path, "/d");
		check_equal(mkdir(path, 0755), 0);
	}
	check_equal(check(NULL), -ELOOP);
}

/* Sets a default access list with a named user: version 2, then tag, permissions and id of each entry. */
static int give_new_files(const char *path, uint16_t permissions, uint16_t mask, uint16_t others)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, permissions;
			uint32_t id;
		} entries[5];
	} list = {2, {{0x01, 7, UINT32_MAX}, {0x02, permissions, OTHER}, {0x04, 5, UINT32_MAX},
			     {0x10, mask, UINT32_MAX}, {0x20, others, UINT32_MAX}}};
	return setxattr(path, "system.posix_acl_default", &list, sizeof(list), 0);
}

static void test_default_access_list_must_not_give_new_files_to_others(void **state)
{
	(void)state;
	if (give_new_files("top/a/b", 5, 7, 5) < 0)
		skip(); /* a file system without access lists */
	trusted();
	check_equal(give_new_files("top/a/b", 7, 5, 5), 0);
	trusted();
	check_equal(give_new_files("top/a/b", 7, 7, 5), 0);
	refused("top/a/b", "gives others write access to new files");
	check_equal(give_new_files("top/a/b", 5, 5, 7), 0);
	refused("top/a/b", "gives others write access to new files");
}

static void test_what_belongs_to_others_is_refused(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	check_equal(chown("top/a/b/file", OTHER, 0), 0);
	refused("top/a/b/file", "belongs to another user");
	check_equal(chown("top/a/b/file", 0, OTHER), 0);
	trusted();
	check_equal(chmod("top/a/b/file", 0664), 0);
	refused("top/a/b/file", "can be written by its group");
	check_equal(chown("top/a/b/file", 0, 0), 0); /* root's group has no other member */
	trusted();
	check_equal(symlink("b", "top/a/link"), 0);
	check_equal(lchown("top/a/link", OTHER, OTHER), 0);
	refused("top/a/link", "is a symbolic link of another user");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, scratch_leave)
	const struct CMUnitTest tests[] = {
		T(test_files_and_directories_at_any_depth_are_checked),
		T(test_links_lead_to_what_is_checked),
		T(test_link_to_a_missing_file_is_refused_where_others_can_create_it),
		T(test_single_file_or_a_missing_one_is_checked),
		T(test_directories_without_end_are_refused),
		T(test_default_access_list_must_not_give_new_files_to_others),
		T(test_what_belongs_to_others_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
