/* SPDX-License-Identifier: MIT */
/* Encoding a file to bytes and back, and invalid bytes. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launch/file_task.h"

static const struct gd_file usual = {
	.path = "/data/audio/a \n\"b\xff.wav",
	.output_dir = "/out/a",
	.stem = "a \n\"b\xff",
	.size_bytes = UINT64_C(5) << 40,
	.known = GD_KNOWN_SECONDS,
	.seconds = 12.5,
};

/* Exactly as large as the task is, so that reading beyond it is detected. */
static struct gd_bytes write_task(const struct gd_file *file)
{
	size_t size = file_task_size(file);
	void *data = malloc(size);
	assert_non_null(data);
	file_task_write(file, data);
	return (struct gd_bytes){.data = data, .size = size};
}

static void assert_refused(const void *data, size_t size)
{
	void *copy = malloc(size ? size : 1);
	assert_non_null(copy);
	if (size)
		memcpy(copy, data, size);
	struct gd_file file = {.stem = "untouched"};
	assert_int_equal(gd_file_read(&(struct gd_bytes){.data = copy, .size = size}, &file, sizeof(file)), -EBADMSG);
	assert_string_equal(file.stem, "untouched");
	free(copy);
}

static void test_task_of_a_file_that_the_caller_describes(void **state)
{
	(void)state;
	char data[256];
	struct gd_file file = {.size = sizeof(file), .path = "/data/b.tar.gz", .output_dir = "/out", .size_bytes = 7},
		       back;
	int64_t size = gd_file_write(&file, NULL, 0);
	assert_true(size > 0 && (size_t)size <= sizeof(data));
	memset(data, 'x', sizeof(data));
	assert_int_equal(gd_file_write(&file, data, (size_t)size - 1), size);
	assert_int_equal(data[0], 'x'); /* too small: untouched */
	assert_int_equal(gd_file_write(&file, data, (size_t)size), size);
	assert_int_equal(data[size], 'x');
	assert_int_equal(gd_file_read(&(struct gd_bytes){data, (size_t)size}, &back, sizeof(back)), 0);
	assert_string_equal(back.path, "/data/b.tar.gz");
	assert_string_equal(back.stem, "b.tar");
	assert_int_equal(back.size_bytes, 7);
	assert_int_equal(back.known, 0);
	file.path = "b.wav";
	assert_int_equal(gd_file_write(&file, data, sizeof(data)), -EINVAL);
	file.path = "/b.wav";
	file.size = 0;
	assert_int_equal(gd_file_write(&file, data, sizeof(data)), -EINVAL);
}

static void test_file_comes_back_as_it_was(void **state)
{
	(void)state;
	struct gd_bytes task = write_task(&usual);
	struct gd_file file;
	assert_int_equal(gd_file_read(&task, &file, sizeof(file)), 0);
	assert_string_equal(file.path, usual.path);
	assert_string_equal(file.output_dir, usual.output_dir);
	assert_string_equal(file.stem, usual.stem);
	assert_true(file.size_bytes == usual.size_bytes);
	assert_int_equal(file.known, GD_KNOWN_SECONDS);
	assert_true(file.seconds == usual.seconds);
	assert_int_equal(file.size, sizeof(file));
	free((void *)task.data);
}

static void test_invalid_seconds_are_unknown(void **state)
{
	(void)state;
	const double none[] = {-1, -0.5, NAN, INFINITY, -INFINITY};
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct gd_file file = usual;
		file.seconds = none[i];
		struct gd_bytes task = write_task(&file);
		assert_int_equal(gd_file_read(&task, &file, sizeof(file)), 0);
		assert_int_equal(file.known, 0);
		assert_true(file.seconds == 0);
		free((void *)task.data);
		assert_true(file_result_seconds(&(struct gd_bytes){.data = &none[i], .size = sizeof(double)}) == -1);
	}
}

static void test_result_of_another_size_has_no_seconds(void **state)
{
	(void)state;
	const double seconds[2] = {3.5, 1};
	assert_true(file_result_seconds(&(struct gd_bytes){.data = seconds, .size = 8}) == 3.5);
	assert_true(file_result_seconds(&(struct gd_bytes){.data = seconds, .size = 16}) == -1);
	assert_true(file_result_seconds(&(struct gd_bytes){.data = seconds, .size = 7}) == -1);
	assert_true(file_result_seconds(&(struct gd_bytes){.data = NULL, .size = 0}) == -1);
}

static void test_every_other_length_is_refused(void **state)
{
	(void)state;
	struct gd_bytes task = write_task(&usual);
	for (size_t size = 0; size < task.size; size++)
		assert_refused(task.data, size);
	char longer[256] = {0};
	memcpy(longer, task.data, task.size);
	assert_refused(longer, task.size + 1);
	free((void *)task.data);
	struct gd_file file;
	assert_int_equal(gd_file_read(&(struct gd_bytes){.data = NULL, .size = 100}, &file, sizeof(file)), -EBADMSG);
}

/* Whatever byte is changed: refused, or strings that end inside the task. */
static void test_changed_bytes_never_lead_outside(void **state)
{
	(void)state;
	struct gd_bytes task = write_task(&usual);
	unsigned char *bytes = (unsigned char *)task.data;
	for (size_t i = 0; i < task.size; i++) {
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (unsigned char)(1 << bit);
			struct gd_file file;
			if (gd_file_read(&task, &file, sizeof(file)) == 0) {
				const char *end = (const char *)task.data + task.size;
				assert_true(file.path + strlen(file.path) < end);
				assert_true(file.output_dir + strlen(file.output_dir) < end);
				assert_true(file.stem + strlen(file.stem) < end);
			}
			bytes[i] ^= (unsigned char)(1 << bit);
		}
	}
	free((void *)task.data);
}

static void test_sizes_that_overflow_are_refused(void **state)
{
	(void)state;
	struct gd_bytes task = write_task(&usual);
	uint32_t *words = (uint32_t *)task.data;
	uint32_t sum = words[1] + words[2];
	words[1] = UINT32_MAX;
	words[2] = sum - UINT32_MAX; /* the sum is right again, modulo 2^32 */
	/* No string is terminated: a reader that trusts it reads too far. */
	memset((char *)task.data + task.size - sum - words[3], 'x', sum + words[3]);
	assert_refused(task.data, task.size);
	words[1] = words[2] = words[3] = UINT32_MAX;
	assert_refused(task.data, task.size);
	free((void *)task.data);
}

static void test_path_that_is_not_absolute_is_refused(void **state)
{
	(void)state;
	struct gd_file file = usual;
	file.path = "-rf";
	struct gd_bytes task = write_task(&file);
	assert_refused(task.data, task.size);
	free((void *)task.data);
	file = usual;
	file.output_dir = "";
	task = write_task(&file);
	assert_refused(task.data, task.size);
	free((void *)task.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_task_of_a_file_that_the_caller_describes),
		cmocka_unit_test(test_file_comes_back_as_it_was),
		cmocka_unit_test(test_invalid_seconds_are_unknown),
		cmocka_unit_test(test_result_of_another_size_has_no_seconds),
		cmocka_unit_test(test_every_other_length_is_refused),
		cmocka_unit_test(test_changed_bytes_never_lead_outside),
		cmocka_unit_test(test_sizes_that_overflow_are_refused),
		cmocka_unit_test(test_path_that_is_not_absolute_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
