/* SPDX-License-Identifier: MIT */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/history_writer.h"
#include "support/check.h"
#include "support/process.h"

#define PRINT "0123456789abcdef0123456789abcdef"

static void put(struct history_writer *w, const char *file, bool done)
{
	struct history_entry e = {
		.file = file,
		.output = "out",
		.size_bytes = 123,
		.mtime_ns = 1700000000123456789,
		.fingerprint = PRINT,
		.audio_seconds = 12.5,
		.processing_seconds = 0.000123,
		.done = done,
	};
	history_writer_add(w, &e, &(struct history_place){.gpu = 3, .attempt = 1}, done ? NULL : "it \"broke\"\n");
}

static void begin(struct history_writer *w)
{
	const struct gd_setting settings[] = {{.key = "language", .value = "en"}};
	const struct history_run run = {"/in", "a worker", PRINT, settings, 1};
	*w = HISTORY_WRITER_CLOSED;
	assert_int_equal(history_writer_open(w, "launch.jsonl", false, NULL), 0);
	history_writer_add_run(w, &run);
}

static void read_back(struct history *h)
{
	struct gd_error err = {0};
	*h = (struct history){0};
	assert_int_equal(history_load(h, AT_FDCWD, "launch.jsonl", false, &err), 0);
}

/* A launcher that has done one file. */
static void write_one(const char *file)
{
	struct history_writer w;
	begin(&w);
	put(&w, file, true);
	assert_int_equal(history_writer_flush(&w), 0);
	history_writer_close(&w);
}

static void assert_read(size_t num_files, uint64_t bad_lines)
{
	struct history h;
	read_back(&h);
	assert_int_equal(h.count, num_files);
	assert_int_equal(h.bad_lines, bad_lines);
	history_finish(&h);
}

static void test_entries_are_read_as_they_were_written(void **state)
{
	(void)state;
	struct history_writer w;
	begin(&w);
	put(&w, "a/b.wav", true);
	put(&w, "\xff -\"\n.wav", false);
	put(&w, "twice.wav", false);
	put(&w, "twice.wav", true);
	assert_int_equal(history_writer_flush(&w), 0);
	assert_int_equal(history_writer_sync(&w), 0);
	history_writer_close(&w);
	struct history h;

	read_back(&h);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.bad_lines, 0);
	const struct history_entry *e = history_find(&h, "a/b.wav", 0);
	assert_non_null(e);
	assert_true(e->done && e->size_bytes == 123 && e->mtime_ns == 1700000000123456789);
	assert_string_equal(e->fingerprint, PRINT);
	assert_string_equal(e->output, "out");
	assert_string_equal(e->input, "/in");
	assert_true(e->audio_seconds == 12.5 && e->processing_seconds > 0.000122 && e->processing_seconds < 0.000124);
	e = history_find(&h, "\xff -\"\n.wav", 0);
	assert_true(e && !e->done);
	assert_true(history_find(&h, "twice.wav", 0)->done);
	assert_null(history_find(&h, "c.wav", 0));
	history_finish(&h);
}

static void add(struct history_writer *w, const char *output, uid_t owner, int gpu, const char *error)
{
	struct history_entry e = {
		.file = "a.wav", .output = output, .owner = owner, .fingerprint = PRINT, .done = !error};
	history_writer_add(w, &e, &(struct history_place){.gpu = gpu, .attempt = 1}, error);
}

static void test_files_of_different_owners_have_their_own_entries(void **state)
{
	(void)state;
	struct history_writer w;
	struct history h;
	begin(&w);
	add(&w, "a", 0, 1, NULL);
	add(&w, "a.wav", 1001, 1, "broken");
	history_writer_add_start(
		&w, &(struct history_entry){.file = "a.wav", .output = "b", .owner = UINT32_MAX, .fingerprint = PRINT});
	assert_int_equal(history_writer_flush(&w), 0);
	history_writer_close(&w);
	read_back(&h);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.bad_lines, 0);
	const struct history_entry *mine = history_find(&h, "a.wav", 0), *theirs = history_find(&h, "a.wav", 1001),
				   *several = history_find(&h, "a.wav", UINT32_MAX);
	assert_true(mine && theirs && several && !history_find(&h, "a.wav", 1002));
	assert_true(mine->owner == 0 && mine->done && mine->has_folder);
	assert_true(theirs->owner == 1001 && !theirs->done && theirs->has_folder);
	assert_true(several->owner == UINT32_MAX && !several->done && several->has_folder);
	assert_string_equal(mine->output, "a");
	assert_string_equal(theirs->output, "a.wav");
	assert_string_equal(theirs->file, "a.wav");
	history_finish(&h);
}

static void test_file_that_reached_no_worker_has_no_folder(void **state)
{
	(void)state;
	struct history_writer w;
	struct history h;
	begin(&w);
	add(&w, "a", 0, -1, "unreadable");
	assert_int_equal(history_writer_flush(&w), 0);
	read_back(&h);
	assert_false(history_find(&h, "a.wav", 0)->has_folder);
	history_finish(&h);
	add(&w, "a", 0, 1, "broken");
	add(&w, "a", 0, -1, "unreadable");
	assert_int_equal(history_writer_flush(&w), 0);
	read_back(&h);
	assert_true(history_find(&h, "a.wav", 0)->has_folder);
	history_finish(&h);
	history_writer_close(&w);
}

/* Otherwise the next launch would treat the existing result as that of a file that failed. */
static void test_refused_file_of_another_input_folder_changes_nothing(void **state)
{
	(void)state;
	struct history_writer w;
	struct history h;
	begin(&w);
	add(&w, "a", 0, 1, NULL);
	history_writer_add_run(&w, &(struct history_run){"/other", "a worker", PRINT});
	add(&w, "a", 0, -1, "results of a file with the same name");
	assert_int_equal(history_writer_flush(&w), 0);
	read_back(&h);
	const struct history_entry *e = history_find(&h, "a.wav", 0);
	assert_true(e->done);
	assert_string_equal(e->input, "/in");
	history_finish(&h);
	add(&w, "a", 0, 1, "broken");
	assert_int_equal(history_writer_flush(&w), 0);
	read_back(&h);
	assert_false(history_find(&h, "a.wav", 0)->done);
	history_finish(&h);
	history_writer_close(&w);
}

static void test_missing_file_is_an_empty_history(void **state)
{
	(void)state;
	struct history h;
	read_back(&h);
	assert_int_equal(h.count, 0);
	history_finish(&h);
}

static void test_torn_lines_and_rubbish_are_skipped_and_counted(void **state)
{
	(void)state;
	struct history h;
	write_one("a.wav");
	FILE *f = fopen("launch.jsonl", "ae");
	static const char rubbish[] =
		"garbage\n\0\0\n[1]\n{}\n{\"event\":\"done\",\"file\":\"x\"}\n{\"event\":\"new\"}\n\n"
		"{\"event\":\"done\",\"file\":\"torn";
	fwrite(rubbish, 1, sizeof(rubbish) - 1, f);
	fclose(f);
	read_back(&h);
	assert_int_equal(h.count, 1);
	assert_int_equal(h.bad_lines, 7); /* the event of a later version has no checksum */
	assert_int_equal(h.first_bad_line, 3);
	history_finish(&h);
	/* The next writer does not append to the torn line. */
	write_one("b.wav");
	assert_read(2, 7);
}

static void test_line_that_lacks_only_its_end_counts(void **state)
{
	(void)state;
	struct history_writer w;
	begin(&w);
	put(&w, "a.wav", true);
	assert_int_equal(history_writer_flush(&w), 0);
	struct stat st;
	assert_int_equal(fstat(w.fd, &st), 0);
	assert_int_equal(ftruncate(w.fd, st.st_size - 1), 0);
	history_writer_close(&w);
	write_one("b.wav");
	assert_read(2, 0);
}

static void test_file_truncated_anywhere_is_read(void **state)
{
	(void)state;
	struct history_writer w;
	begin(&w);
	put(&w, "a.wav", true);
	put(&w, "b.wav", false);
	assert_int_equal(history_writer_flush(&w), 0);
	struct stat st;
	assert_int_equal(fstat(w.fd, &st), 0);
	history_writer_close(&w);
	struct history h;
	for (off_t size = st.st_size; size >= 0; size--) {
		assert_int_equal(truncate("launch.jsonl", size), 0);
		read_back(&h);
		assert_true(h.count <= 2 && h.bad_lines <= 1);
		history_finish(&h);
	}
}

/* A byte that was changed in the middle of a line, anywhere: the line is ignored, all others count. */
static void test_line_with_a_changed_byte_is_skipped(void **state)
{
	(void)state;
	write_one("a.wav");
	write_one("b.wav");
	char whole[4096], damaged[4096];
	size_t size = (size_t)snprintf(whole, sizeof(whole), "%s", scratch_read("launch.jsonl"));
	assert_true(size < sizeof(whole));
	for (size_t at = 0; at < size; at += 3) {
		if (whole[at] == '\n')
			continue;
		memcpy(damaged, whole, size + 1);
		damaged[at] ^= 1;
		scratch_write_text("launch.jsonl", damaged);
		struct history h;
		read_back(&h);
		assert_int_equal(h.bad_lines, 1);
		assert_true(h.count >= 1);
		history_finish(&h);
	}
}

#define OLD_FILE(name, event)                                                                                          \
	"{\"event\":\"" event "\",\"file\":\"" name                                                                    \
	"\",\"size\":1,\"mtime\":2,\"output\":\"o\",\"fingerprint\":\"" PRINT                                          \
	"\",\"processing_seconds\":0.1,\"time\":\"2026-01-01T00:00:00.000Z\"}\n"

static void test_lines_of_version_1_have_no_checksum(void **state)
{
	(void)state;
	scratch_write_text(
		"launch.jsonl", "{\"event\":\"run\",\"version\":1,\"input\":\"/in\"}\n" OLD_FILE("old.wav", "done"));
	assert_read(1, 0);
	write_one("new.wav");
	assert_read(2, 0);
	FILE *f = fopen("launch.jsonl", "ae");
	fputs(OLD_FILE("forged.wav", "done"), f); /* without a checksum, which all others have */
	fclose(f);
	assert_read(2, 1);
}

/* Such a line is not ours. If it counted, it would be lost as soon as it is written again, with other bytes. */
static void test_line_with_a_fingerprint_that_is_not_hexadecimal_is_skipped(void **state)
{
	(void)state;
	static const char line[] =
		"{\"event\":\"done\",\"file\":\"a.wav\",\"size\":1,\"mtime\":2,\"output\":\"o\",\"fingerprint\":\"%s\"}\n";
	static const char *const bad[] = {
		"0123456789abcdef0123456789abcde\x7f",
		"0123456789abcdef0123456789abcde\\",
		"0123456789abcdef01234567\\u0061bc",
		"0123456789ABCDEF0123456789ABCDEF",
		"0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0",
	};
	char text[512];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), line, bad[i]);
		scratch_write_text("launch.jsonl", text);
		assert_read(0, 1);
	}
	snprintf(text, sizeof(text), line, PRINT);
	scratch_write_text("launch.jsonl", text);
	assert_read(1, 0);
}

static void test_newer_version_is_refused(void **state)
{
	(void)state;
	scratch_write_text("launch.jsonl", "{\"event\":\"run\",\"version\":3,\"input\":\"/x\"}\n");
	struct history h = {0};
	struct gd_error err = {0};
	assert_int_equal(history_load(&h, AT_FDCWD, "launch.jsonl", false, &err), -EINVAL);
	check_contains(err.message, "newer version of gpuq");
	history_finish(&h);
}

static void test_second_launcher_is_refused_and_told_who_holds_the_history(void **state)
{
	(void)state;
	struct history_writer w;
	begin(&w);
	pid_t pid = fork();
	if (pid == 0) {
		struct history_writer other = HISTORY_WRITER_CLOSED;
		struct gd_error err = {0};
		char who[32];
		snprintf(who, sizeof(who), "process %d", (int)getppid());
		_exit(history_writer_open(&other, "launch.jsonl", false, &err) == -EBUSY && strstr(err.message, who)
				? 0
				: 1);
	}
	assert_int_equal(process_exit_code(pid), 0);
	history_writer_close(&w);
}

/* Every user who can read the results can lock them; this child does, and holds the lock until it is killed. */
static pid_t start_reader_with_lock(void)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
		int fd = open("launch.jsonl", O_RDONLY);
		if (fcntl(fd, F_SETLK, &lock) == 0 && write(ready[1], "l", 1) == 1)
			process_hang();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void test_lock_on_the_results_does_not_stop_a_launcher(void **state)
{
	(void)state;
	write_one("a.wav");
	pid_t reader = start_reader_with_lock();
	write_one("b.wav");
	process_kill_child(reader);
	assert_read(2, 0);
}

static void test_lock_is_a_file_for_its_owner_alone_and_removed_afterwards(void **state)
{
	(void)state;
	struct history_writer w;
	struct stat st;
	mode_t mask = umask(0);
	begin(&w);
	umask(mask);
	assert_int_equal(stat("launch.lock", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	history_writer_close(&w);
	assert_false(scratch_has("launch.lock"));
	scratch_write_text("launch.lock", ""); /* as a launcher that was killed leaves it */
	write_one("a.wav");
	assert_false(scratch_has("launch.lock"));
}

static void refuse_lock(const char *reason)
{
	struct history_writer w = HISTORY_WRITER_CLOSED;
	struct gd_error err = {0};
	assert_int_equal(history_writer_open(&w, "launch.jsonl", false, &err), -EPERM);
	check_contains(err.message, reason);
	history_writer_close(&w);
	assert_true(scratch_has("launch.lock"));
	assert_false(scratch_has("launch.jsonl"));
}

static void test_lock_file_that_is_not_ours_is_refused(void **state)
{
	(void)state;
	assert_int_equal(mkfifo("launch.lock", 0600), 0);
	refuse_lock("it is not a regular file");
	assert_int_equal(unlink("launch.lock"), 0);
	if (geteuid() != 0)
		return;
	scratch_write_text("launch.lock", "");
	assert_int_equal(chown("launch.lock", 54321, 54321), 0);
	refuse_lock("it belongs to another user");
}

static void test_pipe_in_place_of_the_history_is_not_waited_for(void **state)
{
	(void)state;
	struct history h = {0};
	struct history_writer w = HISTORY_WRITER_CLOSED;
	struct gd_error err = {0};
	assert_int_equal(mkfifo("launch.jsonl", 0600), 0);
	assert_int_equal(history_load(&h, AT_FDCWD, "launch.jsonl", false, &err), -EINVAL);
	assert_int_equal(history_writer_open(&w, "launch.jsonl", false, &err), -EINVAL);
	history_finish(&h);
	history_writer_close(&w);
}

/* A disk that is full, and then is not: in a child, because not every user can raise the limit again. */
static void test_entries_that_cannot_be_written_are_kept_and_written_later(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		struct history_writer w;
		struct rlimit limit = {0, RLIM_INFINITY};
		struct stat st;
		signal(SIGXFSZ, SIG_IGN);
		begin(&w);
		put(&w, "0.wav", true);
		if (history_writer_flush(&w) < 0 || fstat(w.fd, &st) < 0)
			_exit(1);
		limit.rlim_cur = (rlim_t)st.st_size + 50; /* a part of the next line */
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(1);
		for (int i = 1; i < 5; i++) {
			char name[16];
			snprintf(name, sizeof(name), "%d.wav", i);
			put(&w, name, true);
			if (history_writer_flush(&w) != -EFBIG || history_writer_unwritten(&w) != (uint64_t)i)
				_exit(2);
		}
		limit.rlim_cur = RLIM_INFINITY;
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || history_writer_flush(&w) < 0 ||
			history_writer_unwritten(&w) != 0)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(process_exit_code(pid), 0);
	assert_read(5, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_entries_are_read_as_they_were_written),
		scratch_test(test_files_of_different_owners_have_their_own_entries),
		scratch_test(test_file_that_reached_no_worker_has_no_folder),
		scratch_test(test_refused_file_of_another_input_folder_changes_nothing),
		scratch_test(test_missing_file_is_an_empty_history),
		scratch_test(test_torn_lines_and_rubbish_are_skipped_and_counted),
		scratch_test(test_line_that_lacks_only_its_end_counts),
		scratch_test(test_file_truncated_anywhere_is_read),
		scratch_test(test_line_with_a_changed_byte_is_skipped),
		scratch_test(test_lines_of_version_1_have_no_checksum),
		scratch_test(test_line_with_a_fingerprint_that_is_not_hexadecimal_is_skipped),
		scratch_test(test_newer_version_is_refused),
		scratch_test(test_second_launcher_is_refused_and_told_who_holds_the_history),
		scratch_test(test_lock_on_the_results_does_not_stop_a_launcher),
		scratch_test(test_lock_is_a_file_for_its_owner_alone_and_removed_afterwards),
		scratch_test(test_lock_file_that_is_not_ours_is_refused),
		scratch_test(test_pipe_in_place_of_the_history_is_not_waited_for),
		scratch_test(test_entries_that_cannot_be_written_are_kept_and_written_later),
	};
	return cmocka_run_group_tests_name("launch_history", tests, NULL, NULL);
}
