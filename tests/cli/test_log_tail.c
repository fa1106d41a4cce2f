/* SPDX-License-Identifier: MIT */
/* The last lines of a log that may contain holes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/log_tail.h"

#define LIMIT_S 30 /* for calls that take milliseconds */
#define MIB     ((off_t)1 << 20)

static int make_log(void)
{
	char path[] = "log_tail.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	return fd;
}

static void put(int fd, off_t at, const char *text)
{
	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
}

static off_t seek(int fd, uint64_t lines)
{
	alarm(LIMIT_S);
	assert_int_equal(log_tail_seek(fd, lines), 0);
	alarm(0);
	return lseek(fd, 0, SEEK_CUR);
}

static void test_lines_are_counted_from_the_end(void **state)
{
	(void)state;
	int fd = make_log();
	assert_int_equal(seek(fd, 3), 0);
	put(fd, 0, "a\nbc\n\nd");
	static const off_t expected[] = {7, 6, 5, 2, 0, 0};
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_int_equal(seek(fd, i), expected[i]);
	put(fd, 7, "\n");
	for (size_t i = 1; i < sizeof(expected) / sizeof(*expected); i++)
		assert_int_equal(seek(fd, i), expected[i]);
	close(fd);
}

/* The size of a file with holes is limited only by the file system. */
static off_t enlarge(int fd)
{
	off_t size = (off_t)1 << 60;
	while (size > MIB && ftruncate(fd, size) < 0)
		size /= 2;
	assert_true(size > MIB);
	return size - MIB;
}

static void test_hole_of_any_size_is_skipped(void **state)
{
	(void)state;
	int fd = make_log();
	off_t end = enlarge(fd);
	put(fd, 0, "first\nbefore");
	assert_int_equal(ftruncate(fd, 4096) | ftruncate(fd, end), 0);
	/* A hole at the end is a line without a newline. */
	assert_int_equal(seek(fd, 1), 6);
	assert_int_equal(seek(fd, 2), 0);
	put(fd, end, "behind\nlast\n");
	assert_int_equal(seek(fd, 1), end + 7);
	assert_int_equal(seek(fd, 2), 6);
	assert_int_equal(seek(fd, 3), 0);
	close(fd);
}

static void test_log_that_is_one_hole(void **state)
{
	(void)state;
	int fd = make_log();
	enlarge(fd);
	assert_int_equal(seek(fd, 5), 0);
	close(fd);
}

/* Lines in some blocks of a file, which are the same wherever the holes are. */
static void test_holes_between_lines(void **state)
{
	(void)state;
	unsigned random = 1;
	for (int round = 0; round < 50; round++) {
		int fd = make_log();
		off_t at = 0, starts[64];
		size_t count = 0;
		for (int i = 0; i < 60; i++) {
			random = random * 1103515245 + 12345;
			if (random >> 16 & 1)
				at = (at / 4096 + 1 + (random >> 18 & 255)) * 4096;
			put(fd, at, "\n");
			starts[count++] = at + 1;
			at += 1 + (random >> 17 & 4095);
		}
		put(fd, at, "x");
		for (size_t i = 0; i < count; i++)
			assert_int_equal(seek(fd, i + 1), starts[count - 1 - i]);
		assert_int_equal(seek(fd, count + 1), 0);
		close(fd);
	}
}

/* Blocks without a newline between holes: the search for the beginning of the line ends early. */
static void test_endless_line_is_cut(void **state)
{
	(void)state;
	int fd = make_log();
	const int blocks = 5000;
	for (int i = 0; i < blocks; i++)
		put(fd, i * MIB, "x");
	off_t at = seek(fd, 1);
	assert_int_equal(at, (blocks - 1024) * MIB);
	put(fd, (blocks - 1) * MIB, "\n");
	put(fd, (blocks - 900) * MIB, "\n");
	put(fd, (blocks - 1800) * MIB, "\n");
	assert_int_equal(seek(fd, 2), (blocks - 1800) * MIB + 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_are_counted_from_the_end),
		cmocka_unit_test(test_hole_of_any_size_is_skipped),
		cmocka_unit_test(test_log_that_is_one_hole),
		cmocka_unit_test(test_holes_between_lines),
		cmocka_unit_test(test_endless_line_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
