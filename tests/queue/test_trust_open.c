/* SPDX-License-Identifier: MIT */
/* Input files that are replaced after they were opened and before the path to them is checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/journal/trust.h"
#include "support/check.h"
#include "support/scratch.h"

/* An unused user id. */
#define OTHER 54323

/* What another user does as soon as the file was opened for reading. */
static void (*attack)(void);

/* Replaces the C library's function, which is called for the file as soon as it was opened. */
int fstat(int fd, struct stat *st)
{
	int r = fstatat(fd, "", st, AT_EMPTY_PATH);
	if (r == 0 && attack && S_ISREG(st->st_mode) && !(fcntl(fd, F_GETFL) & O_PATH)) {
		void (*act)(void) = attack;
		attack = NULL;
		act();
	}
	return r;
}

static int open_found(void (*act)(void), struct gd_error *err)
{
	int fd = -1;
	attack = act;
	int r = trust_open("dir/commands.txt", TRUST_FOUND, &fd, err);
	assert_null(attack);
	if (r == 0)
		close(fd);
	return r;
}

static void make_files(void)
{
	assert_int_equal(mkdir("dir", 0700) | mkdir("other", 0700), 0);
	scratch_write_text("dir/commands.txt", "first\n");
	scratch_write_text("dir/second.txt", "second\n");
}

static void do_nothing(void)
{
}

static void replace_file(void)
{
	assert_int_equal(rename("dir/second.txt", "dir/commands.txt"), 0);
}

/* A link to the same file, in a trusted directory. */
static void replace_directory_with_link(void)
{
	assert_int_equal(rename("dir", "away"), 0);
	assert_int_equal(link("away/commands.txt", "other/commands.txt"), 0);
	assert_int_equal(symlink("other", "dir") | lchown("dir", OTHER, OTHER), 0);
}

static void test_file_that_was_replaced_is_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	make_files();
	assert_int_equal(open_found(do_nothing, &err), 0);
	assert_int_equal(open_found(replace_file, &err), -EPERM);
	check_contains(err.message, "refusing to use 'dir/commands.txt': ");
	/* Nobody replaces the new one. */
	assert_int_equal(open_found(do_nothing, &err), 0);
}

static void test_link_of_another_user_that_was_put_in_the_path_is_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	if (geteuid() != 0)
		skip();
	make_files();
	assert_int_equal(open_found(replace_directory_with_link, &err), -EPERM);
	check_contains(err.message, "refusing to use 'dir/commands.txt': ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_file_that_was_replaced_is_refused),
		scratch_test(test_link_of_another_user_that_was_put_in_the_path_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
