/* SPDX-License-Identifier: MIT */
/* The directory of `gpuq slurm check`, as the node opens it. No report is sent: no process listens on port 1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/node_check.h"
#include "support/check.h"
#include "support/scratch.h"

#define TOKEN "0123456789abcdef"

static void make_directory(mode_t mode)
{
	assert_int_equal(mkdir("dir", 0700), 0);
	scratch_write_text("dir/" NODE_CHECK_GREETING, TOKEN);
	/* So that the node does not wait. */
	scratch_write_text("dir/" NODE_CHECK_DONE, "");
	assert_int_equal(chmod("dir", mode), 0);
}

static int run(const char *name)
{
	char path[SCRATCH_PATH_SIZE + 16];
	snprintf(path, sizeof(path), "%s/%s", scratch_path(), name);
	return node_check_main(path, "127.0.0.1", 1, TOKEN);
}

static void check_untouched(void)
{
	assert_false(scratch_has("dir/" NODE_CHECK_ANSWER));
	assert_false(scratch_has("dir/" NODE_CHECK_NODE_LOCK));
}

static void test_own_directory_gets_the_report(void **state)
{
	(void)state;
	make_directory(0700);
	assert_int_equal(run("dir"), 0);
	check_contains(scratch_read("dir/" NODE_CHECK_ANSWER), "token " TOKEN "\n");
	check_contains(scratch_read("dir/" NODE_CHECK_ANSWER), "\nown_lock 0\n");
}

static void test_directory_that_others_can_enter_is_refused(void **state)
{
	(void)state;
	static const mode_t modes[] = {0755, 0710, 0702, 0770};
	make_directory(0700);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod("dir", modes[i]), 0);
		assert_int_equal(run("dir"), NODE_CHECK_SILENT);
		check_untouched();
	}
}

static void test_link_to_the_directory_is_refused(void **state)
{
	(void)state;
	make_directory(0700);
	assert_int_equal(symlink("dir", "link"), 0);
	assert_int_equal(run("link"), NODE_CHECK_SILENT);
	check_untouched();
}

static void test_directory_of_another_user_is_refused(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make_directory(0700);
	assert_int_equal(chown("dir", 12345, 12345), 0);
	assert_int_equal(run("dir"), NODE_CHECK_SILENT);
	check_untouched();
}

static void test_links_are_not_written_through(void **state)
{
	(void)state;
	make_directory(0700);
	scratch_write_text("precious", "mine");
	assert_int_equal(symlink("../precious", "dir/" NODE_CHECK_ANSWER ".new"), 0);
	assert_int_equal(symlink("../new", "dir/" NODE_CHECK_NODE_LOCK), 0);
	assert_int_equal(run("dir"), NODE_CHECK_SILENT);
	assert_string_equal(scratch_read("precious"), "mine");
	assert_false(scratch_has("new"));
}

static void test_links_are_not_read_through(void **state)
{
	(void)state;
	char text[64];
	int fd;
	make_directory(0700);
	assert_int_equal(symlink(NODE_CHECK_GREETING, "dir/" NODE_CHECK_ANSWER), 0);
	assert_int_equal(node_check_open(AT_FDCWD, "dir", &fd), 0);
	assert_int_equal(node_check_read(fd, NODE_CHECK_ANSWER, text, sizeof(text)), -ELOOP);
	assert_int_equal(node_check_read(fd, NODE_CHECK_GREETING, text, sizeof(text)), strlen(TOKEN));
	assert_string_equal(text, TOKEN);
	assert_int_equal(node_check_read(fd, NODE_CHECK_GREETING, text, strlen(TOKEN)), -EFBIG);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_own_directory_gets_the_report),
		scratch_test(test_directory_that_others_can_enter_is_refused),
		scratch_test(test_link_to_the_directory_is_refused),
		scratch_test(test_directory_of_another_user_is_refused),
		scratch_test(test_links_are_not_written_through),
		scratch_test(test_links_are_not_read_through),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
