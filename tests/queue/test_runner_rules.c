/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/runner/runner_rules.h"

struct lock_file {
	char path[64];
	int dir_fd, fd;
};

static void lock_file_init(struct lock_file *f)
{
	snprintf(f->path, sizeof(f->path), "/tmp/gpuq-rules-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->dir_fd >= 0);
	f->fd = openat(f->dir_fd, "runner.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(f->fd >= 0);
}

static void lock_file_finish(struct lock_file *f)
{
	close(f->fd);
	assert_int_equal(unlinkat(f->dir_fd, "runner.lock", 0), 0);
	close(f->dir_fd);
	assert_int_equal(rmdir(f->path), 0);
}

/* The runner takes its lock before it can write: an empty file is not that of an older version. */
static void test_runner_that_has_not_written_yet_is_just_beginning(void **state)
{
	(void)state;
	struct lock_file f;
	struct runner_rules rules = {0};
	const struct machine here = {.host = "here"};
	lock_file_init(&f);
	assert_int_equal(runner_rules_read(f.dir_fd, &rules), -EAGAIN);
	assert_int_equal(runner_rules_write(f.fd, &here, NULL), 0);
	assert_int_equal(runner_rules_read(f.dir_fd, &rules), -EAGAIN);
	const struct runner_rules own = {.machine = "m", .gpus = "sim:2"};
	assert_int_equal(runner_rules_write(f.fd, &here, &own), 0);
	assert_int_equal(runner_rules_read(f.dir_fd, &rules), 0);
	assert_string_equal(rules.gpus, "sim:2");
	runner_rules_finish(&rules);
	lock_file_finish(&f);
}

static void test_line_of_another_version_is_not_understood(void **state)
{
	(void)state;
	struct lock_file f;
	struct runner_rules rules = {0};
	lock_file_init(&f);
	assert_int_equal(write(f.fd, "7\n", 2), 2);
	assert_int_equal(runner_rules_read(f.dir_fd, &rules), -ENOENT);
	lock_file_finish(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runner_that_has_not_written_yet_is_just_beginning),
		cmocka_unit_test(test_line_of_another_version_is_not_understood),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
