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

static int open_found(const char *path, void (*act)(void), struct gd_error *err)
{
	char text[16] = "";
	int fd = -1;
	attack = act;
	int r = trust_open(path, TRUST_FOUND, "name it", &fd, err);
	assert_null(attack);
	if (r == 0) {
		assert_int_equal(read(fd, text, sizeof(text) - 1), 6);
		assert_string_equal(text, "first\n");
		close(fd);
	}
	return r;
}

static void make_files(mode_t mode)
{
	assert_int_equal(mkdir("shared", 0700) | chmod("shared", mode), 0);
	assert_int_equal(mkdir("shared/dir", 0700) | mkdir("private", 0700), 0);
	scratch_write_text("shared/dir/commands.txt", "first\n");
	scratch_write_text("shared/dir/second.txt", "second\n");
}

static void do_nothing(void)
{
}

static void replace_file(void)
{
	assert_int_equal(rename("shared/dir/second.txt", "shared/dir/commands.txt"), 0);
}

/* With a link to a trusted directory that contains the same file. */
static void replace_directory_with_link(void)
{
	assert_int_equal(rename("shared/dir", "shared/away"), 0);
	assert_int_equal(rename("shared/away/commands.txt", "private/commands.txt"), 0);
	assert_int_equal(symlink("../private", "shared/dir"), 0);
}

static void replace_directory_with_link_of_another_user(void)
{
	replace_directory_with_link();
	assert_int_equal(lchown("shared/dir", OTHER, OTHER), 0);
}

static void test_file_of_a_trusted_directory_is_the_one_that_was_opened(void **state)
{
	(void)state;
	struct gd_error err = {0};
	make_files(0755);
	assert_int_equal(open_found("shared/dir/commands.txt", do_nothing, &err), 0);
	assert_int_equal(open_found("shared/dir/commands.txt", replace_file, &err), 0);
}

static void test_directory_that_others_can_rename_is_refused_even_if_the_path_now_leads_elsewhere(void **state)
{
	(void)state;
	struct gd_error err = {0};
	make_files(0777);
	assert_int_equal(open_found("shared/dir/commands.txt", replace_directory_with_link, &err), -EPERM);
	check_contains(err.message, "refusing to use 'shared/dir/commands.txt': ");
	/* The link that others can move is not followed either. */
	int fd;
	assert_int_equal(trust_open("shared/dir/commands.txt", TRUST_FOUND, "name it", &fd, &err), -EPERM);
	check_contains(err.message, "/shared/dir' is a symbolic link that another user may have moved there");
}

static void test_link_of_the_user_in_a_directory_of_the_user_is_followed(void **state)
{
	(void)state;
	struct gd_error err = {0};
	make_files(0755);
	replace_directory_with_link();
	assert_int_equal(open_found("shared/dir/commands.txt", do_nothing, &err), 0);
}

static void test_link_of_another_user_that_was_put_in_the_path_is_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	if (geteuid() != 0)
		skip();
	make_files(0777);
	assert_int_equal(
		open_found("shared/dir/commands.txt", replace_directory_with_link_of_another_user, &err), -EPERM);
	check_contains(err.message, "refusing to use 'shared/dir/commands.txt': ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_file_of_a_trusted_directory_is_the_one_that_was_opened),
		scratch_test(test_directory_that_others_can_rename_is_refused_even_if_the_path_now_leads_elsewhere),
		scratch_test(test_link_of_the_user_in_a_directory_of_the_user_is_followed),
		scratch_test(test_link_of_another_user_that_was_put_in_the_path_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
