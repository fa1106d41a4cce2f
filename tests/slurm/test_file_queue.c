/* SPDX-License-Identifier: MIT */
/* The folder of a launch on a cluster, which is cleared before the launch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/file_queue.h"
#include "support/check.h"
#include "support/scratch.h"

/* An unused user id. */
#define OTHER 54322

static int prepare(const char *name, struct gd_error *err)
{
	char path[SCRATCH_PATH_SIZE + 32];
	snprintf(path, sizeof(path), "%s/%s", scratch_path(), name);
	return file_queue_prepare(path, err);
}

static void test_folder_of_an_earlier_launch_is_cleared(void **state)
{
	(void)state;
	struct gd_error err = {0};
	scratch_write_text("commands", "old");
	assert_int_equal(mkdir("launch.slurm", 0700) | mkdir("launch.slurm/proxies", 0700), 0);
	assert_int_equal(rename("commands", "launch.slurm/commands"), 0);
	assert_int_equal(prepare("launch.slurm", &err), 0);
	assert_false(scratch_has("launch.slurm/commands"));
	assert_false(scratch_has("launch.slurm/proxies"));
	assert_true(scratch_has("launch.slurm/slurm.secret"));
	assert_int_equal(prepare("missing", &err), -ENOENT);
	check_contains(err.message, "No such file");
}

/* The output folder was accepted with --trust. A user who can write it has renamed a directory of the victim. */
static void test_directory_that_another_user_put_there_is_not_cleared(void **state)
{
	(void)state;
	struct gd_error err = {0};
	assert_int_equal(mkdir("out", 0700) | chmod("out", 0777), 0);
	assert_int_equal(mkdir("out/private", 0700), 0);
	scratch_write_text("out/private/thesis", "precious");
	assert_int_equal(rename("out/private", "out/launch.slurm"), 0);
	assert_int_equal(prepare("out/launch.slurm", &err), -EPERM);
	assert_string_equal(scratch_read("out/launch.slurm/thesis"), "precious");
	check_contains(err.message, "refusing to clear folder '");
	check_contains(err.message, "/out' can be written by everybody");
	check_contains(err.message, "choose another output folder, or set GPUQ_TRUST=1");
	/* The user trusts these people. */
	setenv("GPUQ_TRUST", "1", 1);
	assert_int_equal(prepare("out/launch.slurm", &err), 0);
	unsetenv("GPUQ_TRUST");
}

static void test_link_of_another_user_is_not_followed(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct gd_error err = {0};
	assert_int_equal(mkdir("home", 0700), 0);
	scratch_write_text("home/thesis", "precious");
	assert_int_equal(symlink("home", "launch.slurm") | lchown("launch.slurm", OTHER, OTHER), 0);
	setenv("GPUQ_TRUST", "1", 1);
	assert_int_equal(prepare("launch.slurm", &err), -EPERM);
	unsetenv("GPUQ_TRUST");
	assert_int_equal(prepare("launch.slurm", &err), -EPERM);
	check_contains(err.message, "is a symbolic link of another user");
	assert_string_equal(scratch_read("home/thesis"), "precious");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_folder_of_an_earlier_launch_is_cleared),
		scratch_test(test_directory_that_another_user_put_there_is_not_cleared),
		scratch_test(test_link_of_another_user_is_not_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
