/* SPDX-License-Identifier: MIT */
/* Output files that other users replace while they are opened. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/named_file.h"
#include "base/text.h"
#include "support/check.h"
#include "support/scratch.h"

/* Replaces the C library's function: the test's file appears only after this check. */
static const char *put_after_look;
int stat64(const char *restrict path, struct stat64 *restrict st);
int stat64(const char *restrict path, struct stat64 *restrict st)
{
	int r = fstatat64(AT_FDCWD, path, st, 0);
	if (put_after_look && rename(put_after_look, path) < 0)
		return -1;
	put_after_look = NULL;
	return r;
}

static void test_pipe_that_comes_into_the_place_of_the_file_is_not_written_to(void **state)
{
	(void)state;
	int fd = -1;
	enum named_file_origin origin;
	struct gd_error err = {0};
	scratch_write_text("summary.json", "{}");
	assert_int_equal(mkfifo("pipe", 0666), 0);
	int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	put_after_look = "pipe";
	assert_int_equal(named_file_open("summary.json", &fd, &origin, &err), -EPERM);
	check_contains(err.message, "it has just been replaced");
	close(reader);
}

static void test_file_is_made_and_kept(void **state)
{
	(void)state;
	int fd = -1;
	enum named_file_origin origin;
	struct gd_error err = {0};
	assert_int_equal(named_file_open("new", &fd, &origin, &err), 0);
	assert_int_equal(origin, NAMED_FILE_CREATED);
	assert_int_equal(write(fd, "12", 2), 2);
	close(fd);
	assert_int_equal(named_file_open("new", &fd, &origin, &err), 0);
	assert_int_not_equal(origin, NAMED_FILE_CREATED);
	assert_int_equal(lseek(fd, 0, SEEK_END), 2);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	close(fd);
}

static void test_file_that_cannot_be_replaced_stays(void **state)
{
	(void)state;
	struct rlimit no_limit, limit;
	cleanup_(text_finish) struct text content = {0};
	struct stat st;
	text_append_string(&content, "new summary");
	scratch_write_text("summary.json", "old");
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &no_limit);
	limit = (struct rlimit){.rlim_cur = 4, .rlim_max = no_limit.rlim_max};
	setrlimit(RLIMIT_FSIZE, &limit);
	int r = named_file_replace(AT_FDCWD, "summary.json", -1, &content);
	setrlimit(RLIMIT_FSIZE, &no_limit);
	assert_int_equal(r, -EFBIG);
	assert_string_equal(scratch_read("summary.json"), "old");
	assert_int_equal(rename("summary.json", "kept"), 0);
	assert_int_equal(system("test \"$(ls)\" = kept"), 0);
	assert_int_equal(chmod("kept", 0640), 0);
	int old = open("kept", O_RDONLY | O_CLOEXEC);
	assert_int_equal(named_file_replace(AT_FDCWD, "kept", old, &content), 0);
	close(old);
	assert_int_equal(stat("kept", &st), 0);
	assert_string_equal(scratch_read("kept"), "new summary");
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(named_file_replace(AT_FDCWD, "kept", -1, &content), 0);
	assert_int_equal(stat("kept", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_file_with_a_name_of_the_maximum_length_is_replaced(void **state)
{
	(void)state;
	char name[NAME_MAX + 1] = "";
	cleanup_(text_finish) struct text content = {0};
	memset(name, 'n', NAME_MAX);
	text_append_string(&content, "summary");
	assert_int_equal(named_file_replace(AT_FDCWD, name, -1, &content), 0);
	assert_string_equal(scratch_read(name), "summary");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_pipe_that_comes_into_the_place_of_the_file_is_not_written_to),
		scratch_test(test_file_is_made_and_kept),
		scratch_test(test_file_that_cannot_be_replaced_stays),
		scratch_test(test_file_with_a_name_of_the_maximum_length_is_replaced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
