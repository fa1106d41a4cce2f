/* SPDX-License-Identifier: MIT */
#include "base/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static int file_with(const char *text)
{
	int fd = memfd_create("lines", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void expect(struct line_reader *r, const char *expected)
{
	const char *line;
	ssize_t n = line_reader_next(r, &line);
	assert_int_equal(n, strlen(expected));
	assert_memory_equal(line, expected, (size_t)n);
}

static void test_lines_come_as_they_are(void **state)
{
	(void)state;
	struct line_reader r = {.fd = file_with("one\n\nthree\nlast"), .max_bytes = 8};
	int fd = r.fd;
	expect(&r, "one\n");
	expect(&r, "\n");
	expect(&r, "three\n");
	expect(&r, "last");
	expect(&r, "");
	expect(&r, "");
	line_reader_finish(&r);
	close(fd);
}

static void test_lines_of_all_lengths_are_whole(void **state)
{
	(void)state;
	FILE *f = tmpfile();
	assert_non_null(f);
	for (int length = 0; length < 1000; length++)
		fprintf(f, "%0*d\n", 200 * length + 4, length);
	assert_int_equal(fflush(f), 0);
	assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
	struct line_reader r = {.fd = fileno(f), .max_bytes = 1 << 20};
	const char *line;
	char end[8];
	for (int length = 0; length < 1000; length++) {
		assert_int_equal(line_reader_next(&r, &line), 200 * length + 5);
		snprintf(end, sizeof(end), "%04d\n", length);
		assert_memory_equal(line + 200 * length, end, 5);
	}
	assert_int_equal(line_reader_next(&r, &line), 0);
	line_reader_finish(&r);
	fclose(f);
}

static void test_line_that_is_too_long_is_an_error_and_takes_no_memory(void **state)
{
	(void)state;
	const char *line;
	struct line_reader r = {.fd = file_with("1234567\n12345678\n"), .max_bytes = 8};
	int fd = r.fd;
	expect(&r, "1234567\n");
	assert_int_equal(line_reader_next(&r, &line), -EFBIG);
	assert_int_equal(line_reader_next(&r, &line), -EFBIG);
	line_reader_finish(&r);
	close(fd);
	/* A hole of a terabyte. */
	fd = file_with("one\n");
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	r = (struct line_reader){.fd = fd, .max_bytes = 1 << 20};
	expect(&r, "one\n");
	assert_int_equal(line_reader_next(&r, &line), -EFBIG);
	assert_true(r.capacity <= 2 << 20);
	line_reader_finish(&r);
	close(fd);
}

static void test_error_of_the_file_is_returned(void **state)
{
	(void)state;
	const char *line;
	struct line_reader r = {.fd = open("/", O_RDONLY | O_CLOEXEC), .max_bytes = 8};
	int fd = r.fd;
	assert_int_equal(line_reader_next(&r, &line), -EISDIR);
	line_reader_finish(&r);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_come_as_they_are),
		cmocka_unit_test(test_lines_of_all_lengths_are_whole),
		cmocka_unit_test(test_line_that_is_too_long_is_an_error_and_takes_no_memory),
		cmocka_unit_test(test_error_of_the_file_is_returned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
