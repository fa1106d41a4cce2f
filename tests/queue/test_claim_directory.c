/* SPDX-License-Identifier: MIT */
/* The directory that all users share for claims, in places where another user can replace it. */
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "queue/schedule/claims.h"
#include "support/check.h"
#include "support/scratch.h"

/* An unused user id. */
#define OTHER 54322

/* The attack: as soon as a directory was created, it is exchanged with this entry. */
static const char *bait;
static unsigned num_made;

/* The file system refuses flags of renameat2(), as NFS does. If `also`, another process creates the directory before.
 */
static bool refuses_flags;
static int (*also)(int dir_fd, const char *path);

/* These replace the C library's functions. */
int renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags)
{
	int (*act)(int, const char *) = also;
	also = NULL;
	if (act)
		assert_int_equal(act(new_fd, new), 0);
	if (!flags || !refuses_flags)
		return (int)syscall(SYS_renameat2, old_fd, old, new_fd, new, flags);
	errno = EINVAL;
	return -1;
}

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
	if (syscall(SYS_mkdirat, dir_fd, path, mode) < 0)
		return -1;
	num_made++;
	if (bait && renameat2(AT_FDCWD, bait, dir_fd, path, RENAME_EXCHANGE) < 0)
		fail_msg("cannot exchange '%s' and '%s'", bait, path);
	bait = NULL;
	return 0;
}

int mkdir(const char *path, mode_t mode)
{
	return mkdirat(AT_FDCWD, path, mode);
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void make_directory(const char *path, mode_t mode)
{
	assert_int_equal(mkdir(path, 0700) | chmod(path, mode), 0);
}

static void check_opens(const char *path)
{
	struct claims *c;
	struct gd_error err = {0};
	if (claims_open(path, &c, &err) != 0)
		fail_msg("%s", err.message);
	claims_close(c);
	assert_int_equal(mode_of(path), 01777);
}

static void check_refused(const char *path, const char *words)
{
	struct claims *c;
	struct gd_error err = {0};
	assert_int_equal(claims_open(path, &c, &err), -EPERM);
	check_contains(err.message, words);
	check_contains(err.message, "could be replaced by another user: ");
	check_contains(err.message, "set GPUQ_CLAIMS_DIR to another directory, or run 'chmod +t'");
}

static void attack_with(const char *entry)
{
	struct claims *c;
	bait = entry;
	num_made = 0;
	int r = claims_open("shared/claims", &c, NULL);
	bait = NULL;
	assert_int_equal(mode_of("secret"), 0700);
	assert_int_equal(mode_of("shared/private"), 0700);
	assert_int_equal(r, -EPERM);
	assert_int_equal(num_made, 0);
	assert_false(scratch_has("shared/claims"));
}

static void test_exchanged_directory_does_not_open_a_private_one(void **state)
{
	(void)state;
	make_directory("secret", 0700);
	make_directory("shared", 0777);
	make_directory("shared/private", 0700);
	assert_int_equal(symlink("../secret", "shared/link"), 0);
	attack_with("shared/link");
	attack_with("shared/private");
	/* The user may accept directories of others, but nothing can be created safely there. */
	setenv("GPUQ_TRUST", "1", 1);
	attack_with("shared/link");
	attack_with("shared/private");
	unsetenv("GPUQ_TRUST");
}

static void test_directory_that_others_can_replace_is_refused(void **state)
{
	(void)state;
	make_directory("shared", 0777);
	make_directory("shared/claims", 01777);
	make_directory("shared/own", 0755);
	make_directory("shared/own/claims", 01777);
	check_refused("shared/claims", "/shared' can be written by everybody");
	check_refused("shared/own/claims", "/shared' can be written by everybody");
	check_refused("shared/own/missing", "/shared' can be written by everybody");
	assert_false(scratch_has("shared/own/missing"));
	setenv("GPUQ_TRUST", "1", 1);
	check_opens("shared/claims");
	check_opens("shared/own/claims");
	unsetenv("GPUQ_TRUST");
	assert_int_equal(chmod("shared", 01777), 0);
	check_opens("shared/claims");
	check_opens("shared/own/claims");
}

static void test_directory_is_created_where_nobody_can_replace_it(void **state)
{
	(void)state;
	char path[SCRATCH_PATH_SIZE + 32];
	mode_t mask = umask(077);
	make_directory("shared", 01777);
	make_directory("own", 0755);
	check_opens("shared/claims");
	check_opens("own/claims");
	check_opens("own//more///");
	check_opens("own/../here");
	snprintf(path, sizeof(path), "%s/absolute", scratch_path());
	check_opens(path);
	umask(mask);
	assert_int_equal(system("test \"$(ls shared own | tr '\\n' ' ')\" = 'own: claims more  shared: claims '"), 0);
	/* Below a link of this user. */
	assert_int_equal(symlink("own", "link"), 0);
	check_opens("link/claims");
	struct claims *c;
	struct gd_error err = {0};
	assert_int_equal(claims_open("missing/claims", &c, &err), -ENOENT);
	check_contains(err.message, "the directory of claims 'missing/claims': ");
	assert_int_equal(chdir("own/claims"), 0);
	check_opens(".");
}

static int open_at(int dir_fd, const char *path)
{
	struct claims *c;
	struct gd_error err = {0};
	assert_int_equal(fchdir(dir_fd), 0);
	if (claims_open(path, &c, &err) != 0)
		fail_msg("%s", err.message);
	claims_close(c);
	return chdir(scratch_path());
}

static ino_t first_ino;

/* Another process does the same, and keeps the directory open. */
static int open_first(int dir_fd, const char *path)
{
	struct stat st;
	assert_int_equal(open_at(dir_fd, path), 0);
	assert_int_equal(fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	first_ino = st.st_ino;
	return 0;
}

static void test_directory_is_created_where_rename_takes_no_flags(void **state)
{
	(void)state;
	struct stat st;
	refuses_flags = true;
	make_directory("shared", 01777);
	check_opens("shared/claims");
	check_opens("shared/claims");
	also = open_first;
	check_opens("shared/more");
	refuses_flags = false;
	assert_null(also);
	/* A directory in which another process may already have claimed is not replaced. */
	assert_int_equal(stat("shared/more", &st), 0);
	assert_int_equal(st.st_ino, first_ino);
	assert_int_equal(system("test \"$(ls shared | tr '\\n' ' ')\" = 'claims more '"), 0);
}

static int make_file(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : close(fd);
}

static void test_directory_that_cannot_be_created_is_reported(void **state)
{
	(void)state;
	struct claims *c;
	struct gd_error err = {0};
	refuses_flags = true;
	also = make_file;
	assert_int_equal(claims_open("claims", &c, &err), -ENOTDIR);
	refuses_flags = false;
	check_contains(err.message, "cannot create the directory of claims 'claims': ");
	assert_int_equal(system("test \"$(ls)\" = claims"), 0);
}

static void test_link_of_another_user_in_the_path_is_refused(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make_directory("own", 0755);
	assert_int_equal(symlink("own", "link") | lchown("link", OTHER, OTHER), 0);
	check_refused("link/claims", "/link' is a symbolic link of another user");
	assert_false(scratch_has("own/claims"));
	check_opens("own/claims");
	check_refused("link/claims", "/link' is a symbolic link of another user");
	make_directory("theirs", 0755);
	assert_int_equal(chown("theirs", OTHER, OTHER), 0);
	make_directory("theirs/claims", 01777);
	check_refused("theirs/claims", "/theirs' belongs to another user");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_exchanged_directory_does_not_open_a_private_one),
		scratch_test(test_directory_that_others_can_replace_is_refused),
		scratch_test(test_directory_is_created_where_nobody_can_replace_it),
		scratch_test(test_directory_is_created_where_rename_takes_no_flags),
		scratch_test(test_directory_that_cannot_be_created_is_reported),
		scratch_test(test_link_of_another_user_in_the_path_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
