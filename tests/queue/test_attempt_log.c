/* SPDX-License-Identifier: MIT */
/* The directory for logs, created where another user can replace it. */
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

#include "queue/journal/journal.h"
#include "queue/keeper/attempt_log.h"
#include "queue/keeper/known_directory.h"
#include "support/scratch.h"

/* An unused user id. */
#define OTHER 54322

/* The attack: as soon as a directory of this name was created, two entries are exchanged. */
static const char *attacked, *place, *bait;

/* These replace the C library's functions. */
int mkdirat(int dir_fd, const char *path, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	if (syscall(SYS_mkdirat, dir_fd, path, mode) < 0)
		return -1;
	if (!attacked || strcmp(slash ? slash + 1 : path, attacked) != 0)
		return 0;
	attacked = NULL;
	if (renameat2(AT_FDCWD, bait, AT_FDCWD, place, RENAME_EXCHANGE) < 0)
		fail_msg("cannot exchange '%s' and '%s'", bait, place);
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

static int open_log(const char *path, bool named, enum log_access access)
{
	char directory[SCRATCH_PATH_SIZE + 64];
	struct known_directory known = {.fd = -1};
	struct attempt_log log;
	snprintf(directory, sizeof(directory), "%s/%s", scratch_path(), path);
	const struct attempt_log_options options = {.directory = directory,
		.trust = named ? LOG_TRUST_NAMED : LOG_TRUST_OWN,
		.access = access,
		.known = &known};
	int r = attempt_log_open(&log, &options, 1);
	if (r == 0) {
		attempt_log_remove(&log);
		attempt_log_close(&log);
	}
	if (known.path)
		close(known.fd);
	free(known.path);
	return r;
}

static void test_modes_do_not_depend_on_the_umask(void **state)
{
	(void)state;
	static const struct {
		enum log_access access;
		mode_t mode;
	} cases[] = {{LOG_ACCESS_OWNER, 0700}, {LOG_ACCESS_GROUP, 0750}, {LOG_ACCESS_ALL, 0755}};
	static const mode_t masks[] = {0, 022, 077};
	mode_t before = umask(0);
	for (size_t i = 0; i < 3; i++)
		for (size_t m = 0; m < 3; m++) {
			char path[32];
			umask(masks[m]);
			snprintf(path, sizeof(path), "a%zu%zu/b//logs/", i, m);
			assert_int_equal(open_log(path, true, cases[i].access), 0);
			assert_int_equal(mode_of(path), cases[i].mode);
			/* The directories above can be written only by the user. */
			path[5] = '\0';
			assert_int_equal(mode_of(path), 0755 & ~masks[m]);
			assert_int_equal(umask(0), masks[m]);
		}
	umask(before);
}

static void test_exchanged_directory_keeps_its_mode(void **state)
{
	(void)state;
	make_directory("shared", 0777);
	make_directory("shared/private", 0700);
	attacked = "logs";
	place = "shared/logs";
	bait = "shared/private";
	assert_int_equal(open_log("shared/logs", true, LOG_ACCESS_ALL), 0);
	assert_null(attacked);
	assert_int_equal(mode_of("shared/logs"), 0700);    /* formerly private */
	assert_int_equal(mode_of("shared/private"), 0755); /* the new one */
}

static void test_link_to_another_directory_above_keeps_its_mode(void **state)
{
	(void)state;
	make_directory("shared", 0777);
	make_directory("home", 0700);
	make_directory("home/logs", 0700);
	assert_int_equal(symlink("../home", "shared/link"), 0);
	attacked = "logs";
	place = "shared/run1";
	bait = "shared/link";
	assert_int_equal(open_log("shared/run1/logs", true, LOG_ACCESS_ALL), 0);
	assert_null(attacked);
	assert_int_equal(mode_of("home/logs"), 0700);
}

/* The user has not named the directory. */
static void test_nothing_is_created_behind_a_link_of_another_user(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	make_directory("shared", 0777);
	make_directory("home", 0700);
	assert_int_equal(symlink("../home", "shared/link") | lchown("shared/link", OTHER, OTHER), 0);
	attacked = "run1";
	place = "shared/run1";
	bait = "shared/link";
	assert_int_equal(open_log("shared/run1/logs", false, LOG_ACCESS_OWNER), -ENOTUNIQ);
	assert_null(attacked);
	assert_false(scratch_has("home/logs"));
}

/* Otherwise the directory could not be renamed back. */
static void test_folder_in_a_renamed_queue_is_not_created_at_the_old_path(void **state)
{
	(void)state;
	char parent[SCRATCH_PATH_SIZE + 64], directory[SCRATCH_PATH_SIZE + 96];
	struct known_directory known = {.fd = -1};
	struct attempt_log log;
	make_directory("queue", 0700);
	snprintf(parent, sizeof(parent), "%s/queue", scratch_path());
	snprintf(directory, sizeof(directory), "%s/deep/logs", parent);
	struct journal journal = {.parent_path = parent, .parent_fd = open("queue", O_RDONLY | O_CLOEXEC)};
	const struct attempt_log_options options = {
		.directory = directory, .trust = LOG_TRUST_OWN, .known = &known, .journal = &journal};
	assert_int_equal(rename("queue", "renamed"), 0);
	assert_int_equal(attempt_log_open(&log, &options, 1), 0);
	attempt_log_close(&log);
	assert_int_equal(access("renamed/deep/logs", F_OK), 0);
	assert_int_equal(access("queue", F_OK), -1);
	close(journal.parent_fd);
	close(known.fd);
	free(known.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_modes_do_not_depend_on_the_umask),
		scratch_test(test_exchanged_directory_keeps_its_mode),
		scratch_test(test_link_to_another_directory_above_keeps_its_mode),
		scratch_test(test_nothing_is_created_behind_a_link_of_another_user),
		scratch_test(test_folder_in_a_renamed_queue_is_not_created_at_the_old_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
