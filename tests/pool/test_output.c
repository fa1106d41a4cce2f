/* SPDX-License-Identifier: MIT */
/* Where the output of workers goes, and that the library prints nothing itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder.h"
#include "support/board.h"
#include "support/scratch.h"

static int speak(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	printf("out of slot %d: task %d\n", gd_worker_slot(w), (int)recorder_number(task));
	fprintf(stderr, "err of slot %d: task %d\n", gd_worker_slot(w), (int)recorder_number(task));
	/* Each worker has at least one. */
	board_meet(&board->words[0], gd_worker_slot(w), 2);
	return recorder_echo(w, state, task);
}

static int say_hello(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	char byte;
	/* stdin is empty, not the terminal's */
	printf("hello of slot %d, %zd bytes\n", gd_worker_slot(w), read(STDIN_FILENO, &byte, 1));
	return 0;
}

static int say_goodbye(struct gd_worker *w, void *state)
{
	(void)state;
	printf("goodbye of slot %d\n", gd_worker_slot(w));
	return 0;
}

static const struct gd_worker_ops speakers = {
	.size = sizeof(struct gd_worker_ops), .setup = say_hello, .process = speak, .cleanup = say_goodbye};

/* Runs with stdout and stderr of this process in a file; returns its content. */
static const char *run_captured(struct recorder *rec, int *ret)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/captured", recorder_dir());
	fflush(NULL);
	int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	assert_true(fd >= 0);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
	printf("not yet written;");
	*ret = recorder_run(rec, &speakers);
	fflush(NULL);
	dup2(saved[0], STDOUT_FILENO);
	dup2(saved[1], STDERR_FILENO);
	close(saved[0]);
	close(saved[1]);
	return scratch_read(path);
}

static void test_inherited_output_comes_through_once(void **state)
{
	struct recorder *rec = *state;
	int r;
	const char *text = run_captured(rec, &r);
	assert_int_equal(r, 0);
	recorder_assert_complete(rec);
	assert_int_equal(check_occurrences(text, "out of slot"), 10);
	assert_int_equal(check_occurrences(text, "err of slot"), 10);
	for (int i = 0; i < 10; i++) {
		char words[32];
		snprintf(words, sizeof(words), ": task %d\n", i);
		assert_int_equal(check_occurrences(text, words), 2);
	}
	for (int slot = 0; slot < 2; slot++) {
		char words[64];
		snprintf(words, sizeof(words), "hello of slot %d, 0 bytes\n", slot);
		assert_int_equal(check_occurrences(text, words), 1);
		snprintf(words, sizeof(words), "goodbye of slot %d\n", slot);
		assert_int_equal(check_occurrences(text, words), 1);
	}
	/* Data in the host's buffer before the fork is not written again by each worker. */
	assert_int_equal(check_occurrences(text, "not yet written;"), 1);
}

static void test_silenced_output_goes_nowhere(void **state)
{
	struct recorder *rec = *state;
	int r;
	rec->options.output = GD_OUTPUT_SILENT;
	const char *text = run_captured(rec, &r);
	assert_int_equal(r, 0);
	recorder_assert_complete(rec);
	assert_string_equal(text, "not yet written;"); /* and the library prints nothing */
}

static void test_output_is_appended_to_one_file_per_worker(void **state)
{
	struct recorder *rec = *state;
	int r;
	static char dir[128];
	char path[160];
	snprintf(dir, sizeof(dir), "%s/logs", recorder_dir());
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = dir;
	for (size_t run = 1; run <= 2; run++) {
		recorder_restart(rec);
		atomic_store(&board->words[0], 0);
		const char *text = run_captured(rec, &r);
		assert_int_equal(r, 0);
		assert_string_equal(text, "not yet written;");
		size_t out = 0, err = 0;
		for (int slot = 0; slot < 2; slot++) {
			char words[64], other[64];
			snprintf(path, sizeof(path), "%s/worker-%d.log", dir, slot);
			text = scratch_read(path);
			snprintf(words, sizeof(words), "goodbye of slot %d\n", slot);
			snprintf(other, sizeof(other), "slot %d", 1 - slot);
			assert_int_equal(check_occurrences(text, words), run); /* appended to */
			assert_int_equal(check_occurrences(text, other), 0);
			out += check_occurrences(text, "out of slot");
			err += check_occurrences(text, "err of slot");
		}
		assert_int_equal(out, 10 * run);
		assert_int_equal(err, 10 * run);
	}
}

static void test_log_folder_that_cannot_be_made_fails_the_run(void **state)
{
	struct recorder *rec = *state;
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = "/proc/nowhere/logs";
	assert_int_equal(recorder_run(rec, &speakers), -ENOENT);
	check_contains(rec->err.message, "'/proc/nowhere/logs': No such file or directory");
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
}

static void test_log_file_that_cannot_be_written_fails_setup(void **state)
{
	struct recorder *rec = *state;
	char path[128];
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = recorder_dir();
	for (int slot = 0; slot < 2; slot++) {
		snprintf(path, sizeof(path), "%s/worker-%d.log", recorder_dir(), slot);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(recorder_run(rec, &speakers), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	assert_int_equal(recorder_note(rec, CALLBACK_SETUP_FAIL, 0)->event.code, -EISDIR);
	check_contains(recorder_note(rec, CALLBACK_SETUP_FAIL, 0)->message, "Is a directory");
}

static void is_refused(struct recorder *rec, const char *words)
{
	recorder_restart(rec);
	assert_int_equal(recorder_run(rec, &speakers), -EPERM);
	check_contains(rec->err.message, words);
	check_contains(rec->err.message, "set GPUQ_TRUST=1 if you accept that");
}

static void is_accepted(struct recorder *rec)
{
	recorder_restart(rec);
	atomic_store(&board->words[0], 0);
	assert_int_equal(recorder_run(rec, &speakers), 0);
	recorder_assert_complete(rec);
}

static void test_log_folder_that_others_can_change_is_refused(void **state)
{
	struct recorder *rec = *state;
	static char dir[128];
	char link[128];
	snprintf(dir, sizeof(dir), "%s/logs", recorder_dir());
	snprintf(link, sizeof(link), "%s/link", recorder_dir());
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = dir;
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	is_refused(rec, "/logs': it can be written by everybody; check its content, then run chmod go-w ");
	assert_int_equal(setenv("GPUQ_TRUST", "1", 1), 0);
	is_accepted(rec);
	assert_int_equal(unsetenv("GPUQ_TRUST"), 0);
	assert_int_equal(chmod(dir, 0700), 0);
	is_accepted(rec);
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(dir, 12345, 12345), 0);
	is_refused(rec, "/logs': it belongs to another user");
	assert_int_equal(chown(dir, 0, 0), 0);
	assert_int_equal(symlink(dir, link), 0);
	rec->options.output_dir = link;
	gd_dispatcher_destroy(rec->dispatcher);
	rec->dispatcher = NULL;
	is_accepted(rec);
	assert_int_equal(lchown(link, 12345, 12345), 0);
	is_refused(rec, "/link' is a symbolic link of another user");
}

static void test_refused_log_folder_is_not_created(void **state)
{
	struct recorder *rec = *state;
	static char dir[160];
	char shared[128];
	snprintf(shared, sizeof(shared), "%s/shared", recorder_dir());
	snprintf(dir, sizeof(dir), "%s/logs", shared);
	assert_int_equal(mkdir(shared, 0700), 0);
	assert_int_equal(chmod(shared, 0777), 0);
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = dir;
	is_refused(rec, "/shared' can be written by everybody; run chmod +t ");
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(chmod(shared, 0700), 0);
	is_accepted(rec);
	assert_int_equal(access(dir, F_OK), 0);
}

static void test_log_that_others_may_access_is_refused(void **state)
{
	struct recorder *rec = *state;
	static char dir[128];
	char log[160], name[160];
	snprintf(dir, sizeof(dir), "%s/logs", recorder_dir());
	snprintf(log, sizeof(log), "%s/worker-1.log", dir);
	snprintf(name, sizeof(name), "%s/second", dir);
	rec->options.output = GD_OUTPUT_FILES;
	rec->options.output_dir = dir;
	is_accepted(rec);
	assert_int_equal(chmod(log, 0640), 0);
	is_refused(rec, "/logs/worker-1.log': other users may access it; remove it");
	assert_int_equal(chmod(log, 0600), 0);
	assert_int_equal(link(log, name), 0);
	is_refused(rec, "/logs/worker-1.log': it has several names (hard links); remove it");
	assert_int_equal(unlink(log), 0);
	is_accepted(rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_inherited_output_comes_through_once),
		recorder_test(test_silenced_output_goes_nowhere),
		recorder_test(test_output_is_appended_to_one_file_per_worker),
		recorder_test(test_log_folder_that_cannot_be_made_fails_the_run),
		recorder_test(test_log_file_that_cannot_be_written_fails_setup),
		recorder_test(test_log_folder_that_others_can_change_is_refused),
		recorder_test(test_refused_log_folder_is_not_created),
		recorder_test(test_log_that_others_may_access_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
