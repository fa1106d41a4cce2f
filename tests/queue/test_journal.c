/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/lock.h"
#include "queue/journal/draft.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"
#include "queue/journal/seal.h"
#include "support/scratch.h"

static char path[128];

/* Replaces the C library's function: releasing a lock fails if the test requests it. */
static bool fail_unlock;
int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (fail_unlock && command == F_SETLK && ((struct flock *)argument)->l_type == F_UNLCK) {
		errno = ENOLCK;
		return -1;
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static int set_up(void **state)
{
	int r = scratch_enter(state);
	snprintf(path, sizeof(path), "%s/jobs.jsonl", scratch_path());
	return r;
}

static struct journal *opened(void)
{
	struct journal *j;
	struct gd_error err;
	assert_int_equal(journal_open(path, false, &j, &err), 0);
	return j;
}

static uint64_t add(struct journal *j, const char *command)
{
	struct text t = {0};
	assert_int_equal(journal_lock(j, NULL), 0);
	uint64_t id = journal_take_ids(j, 1);
	record_write_add(&t, id, 1,
		&(struct job_spec){.command = command,
			.command_size = strlen(command),
			.num_gpus = -1,
			.mem_mb = -1,
			.min_free_mem_mb = -1,
			.timeout_ms = -1});
	assert_int_equal(journal_append(j, t.data, t.length, NULL, NULL), 0);
	journal_unlock(j);
	text_finish(&t);
	return id;
}

static void put(const char *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, bytes, size), 0);
	close(fd);
}

static size_t count_jobs(void)
{
	struct follow f;
	assert_int_equal(follow_open(path, false, &f, NULL), 0);
	size_t n = f.jobs.count;
	follow_close(&f);
	return n;
}

static void test_ids_go_up_across_processes(void **state)
{
	(void)state;
	struct journal *j = opened();
	assert_int_equal(add(j, "a"), 1);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			struct journal *mine;
			if (journal_open(path, false, &mine, NULL) < 0)
				_exit(1);
			for (int k = 0; k < 50; k++)
				add(mine, "b");
			_exit(0);
		}
	int status;
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	assert_int_equal(add(j, "c"), 202);
	assert_int_equal(count_jobs(), 202);
	journal_close(j);
}

static void test_torn_tail_is_cut_by_the_next_append_and_raises_the_fence(void **state)
{
	(void)state;
	struct journal *j = opened();
	add(j, "a");
	uint64_t fence = j->fence;
	put("{\"event\":\"add\",\"id\":7,", 22);
	assert_int_equal(count_jobs(), 1);
	assert_int_equal(add(j, "b"), 2);
	assert_true(j->fence != fence);
	assert_int_equal(count_jobs(), 2);
	journal_close(j);
}

static void test_tail_of_zeros_after_a_power_cut_is_cut_by_the_next_append(void **state)
{
	(void)state;
	struct journal *j = opened();
	add(j, "a");
	char zeros[5000] = {0};
	put(zeros, sizeof(zeros));
	assert_int_equal(add(j, "b"), 2);
	assert_int_equal(count_jobs(), 2);
	journal_close(j);
}

static void test_lines_of_a_process_that_died_before_it_wrote_the_counters_count(void **state)
{
	(void)state;
	struct journal *j = opened();
	add(j, "a");
	const char *line = "{\"event\":\"add\",\"id\":9,\"command\":\"x\"}\n";
	struct text t = {0};
	seal_append(&t, line, strlen(line), j->next_n);
	put(t.data, t.length);
	text_finish(&t);
	assert_int_equal(add(j, "b"), 10);
	journal_close(j);
}

static void test_fence_changes_only_when_it_is_raised(void **state)
{
	(void)state;
	struct journal *a = opened();
	add(a, "a");
	uint64_t fence = a->fence;
	add(a, "b");
	assert_true(a->fence == fence);
	if (fork() == 0) {
		struct journal *b;
		int r = journal_open(path, false, &b, NULL);
		if (r == 0)
			r = journal_lock(b, NULL);
		if (r == 0)
			r = journal_raise_fence(b, NULL);
		_exit(r != 0); /* as if killed while holding the lock */
	}
	int status;
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	assert_int_equal(journal_lock(a, NULL), 0);
	assert_true(a->fence == fence + 1);
	journal_unlock(a);
	journal_close(a);
}

static void test_lock_that_cannot_be_released_is_given_up(void **state)
{
	(void)state;
	struct journal *j = opened();
	add(j, "a");
	fail_unlock = true;
	add(j, "b");
	fail_unlock = false;
	pid_t pid = fork();
	if (pid == 0) {
		char name[160];
		snprintf(name, sizeof(name), "%s.d/append.lock", path);
		int fd = open(name, O_RDWR | O_CLOEXEC);
		_exit(fd < 0 || lock_try(fd) < 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(add(j, "c"), 3);
	assert_int_equal(count_jobs(), 3);
	journal_close(j);
}

/* A backup with hard links keeps the lock file when a copy replaces it, as the refusal of a second name advises. */
static void test_replaced_lock_is_used_though_the_old_one_has_another_name(void **state)
{
	(void)state;
	char name[160], backup[160], fresh[160];
	snprintf(name, sizeof(name), "%s.d/append.lock", path);
	snprintf(backup, sizeof(backup), "%s/backup", scratch_path());
	snprintf(fresh, sizeof(fresh), "%s/fresh", scratch_path());
	struct journal *j = opened();
	add(j, "a");
	assert_int_equal(link(name, backup), 0);
	int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(rename(fresh, name), 0);
	assert_int_equal(journal_lock(j, NULL), 0);
	pid_t pid = fork();
	if (pid == 0) {
		fd = open(name, O_RDWR | O_CLOEXEC);
		_exit(fd < 0 || lock_try(fd) != -EAGAIN);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	journal_unlock(j);
	assert_int_equal(add(j, "b"), 2);
	assert_int_equal(count_jobs(), 2);
	journal_close(j);
}

static void test_replaced_file_is_read_to_its_end_first(void **state)
{
	(void)state;
	struct journal *j = opened();
	struct follow f;
	add(j, "a");
	assert_int_equal(follow_open(path, false, &f, NULL), 0);
	add(j, "b");
	const char *line = "{\"event\":\"add\",\"id\":2,\"command\":\"b\"}\n";
	struct draft d;
	assert_int_equal(journal_lock(j, NULL), 0);
	assert_int_equal(draft_open(&d, j, NULL), 0);
	assert_int_equal(draft_add(&d, line, strlen(line)), 0);
	assert_int_equal(draft_sync(&d), 0);
	assert_int_equal(draft_commit(&d, NULL), 0);
	draft_close(&d);
	journal_unlock(j);
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_true(f.reset);
	assert_int_equal(f.jobs.count, 1);
	assert_int_equal(add(j, "c"), 3);
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_int_equal(f.jobs.count, 2);
	follow_close(&f);
	journal_close(j);
}

/* Damage: the reader starts again with the first line. */
static void test_file_that_has_become_shorter_is_read_again(void **state)
{
	(void)state;
	struct journal *j = opened();
	struct follow f;
	struct stat st;
	add(j, "a");
	assert_int_equal(stat(path, &st), 0);
	add(j, "b");
	assert_int_equal(follow_open(path, false, &f, NULL), 0);
	assert_int_equal(f.jobs.count, 2);
	assert_int_equal(truncate(path, st.st_size), 0);
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_true(f.reset);
	assert_int_equal(f.jobs.count, 1);
	follow_close(&f);
	journal_close(j);
}

/* A process that waits for a job searches the archive after an update that found another file. */
static void test_replaced_file_is_reported_even_if_it_was_found_in_between(void **state)
{
	(void)state;
	struct journal *j = opened();
	struct follow f;
	struct draft d;
	add(j, "a");
	const char *start = "{\"event\":\"start\",\"id\":1,\"attempt\":1,\"pid\":1,\"keeper\":\"k1\"}\n";
	assert_int_equal(journal_lock(j, NULL), 0);
	assert_int_equal(journal_append(j, start, strlen(start), NULL, NULL), 0);
	journal_unlock(j);
	assert_int_equal(follow_open(path, false, &f, NULL), 0);
	assert_true(follow_is_lost(&f, 1));
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_false(f.reset);
	assert_int_equal(journal_lock(j, NULL), 0);
	assert_int_equal(draft_open(&d, j, NULL), 0);
	assert_int_equal(draft_sync(&d), 0);
	assert_int_equal(draft_commit(&d, NULL), 0);
	draft_close(&d);
	journal_unlock(j);
	assert_false(follow_is_lost(&f, 1));
	assert_int_equal(f.jobs.count, 0);
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_true(f.reset);
	assert_int_equal(follow_update(&f, NULL), 0);
	assert_false(f.reset);
	follow_close(&f);
	journal_close(j);
}

static void test_lock_names_its_holder_and_ends_with_it(void **state)
{
	(void)state;
	int to_child[2], to_parent[2];
	char byte;
	assert_int_equal(pipe(to_child) + pipe(to_parent), 0);
	put("", 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (lock_try(fd) < 0 || write(to_parent[1], "x", 1) != 1 || read(to_child[0], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(to_parent[0], &byte, 1), 1);
	pid_t holder = -2;
	assert_int_equal(lock_holder_at(AT_FDCWD, path, &holder), 0);
	assert_int_equal(holder, pid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(lock_try(fd), -EAGAIN);
	assert_int_equal(write(to_child[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(lock_holder(fd, &holder), 0);
	assert_int_equal(holder, 0);
	close(fd);
}

/* ---- The fold -------------------------------------------------------------------- */

static enum job_state state_after(const char *lines)
{
	struct jobs js;
	jobs_init(&js);
	const char *p = lines, *newline;
	for (uint64_t n = 1; (newline = strchr(p, '\n')); p = newline + 1)
		assert_int_equal(jobs_apply(&js, n, p, (size_t)(newline - p)), 0);
	assert_int_equal(js.bad_lines, 0);
	enum job_state s = (enum job_state)jobs_find(&js, 1)->state;
	assert_int_equal(js.counts[s], 1);
	jobs_finish(&js);
	return s;
}

#define ADD       "{\"event\":\"add\",\"id\":1,\"command\":\"x\"}\n"
#define ADD_RETRY "{\"event\":\"add\",\"id\":1,\"command\":\"x\",\"retries\":1}\n"
#define START(n)  "{\"event\":\"start\",\"id\":1,\"attempt\":" #n ",\"keeper\":\"k\"}\n"
#define END(n, s) "{\"event\":\"end\",\"id\":1,\"attempt\":" #n ",\"status\":\"" #s "\"}\n"
#define ON(e)     "{\"event\":\"" #e "\",\"id\":1}\n"

static void test_state_of_a_job_follows_from_its_events(void **state)
{
	(void)state;
	assert_int_equal(state_after(ADD), JOB_PENDING);
	assert_int_equal(state_after(ADD ON(hold)), JOB_HELD);
	assert_int_equal(state_after(ADD ON(hold) ON(release)), JOB_PENDING);
	assert_int_equal(state_after(ADD ON(cancel)), JOB_CANCELLED);
	assert_int_equal(state_after(ADD ON(cancel) ON(retry)), JOB_PENDING);
	assert_int_equal(state_after(ADD ON(fail)), JOB_FAILED);
	assert_int_equal(state_after(ADD ON(cancel) ON(fail)), JOB_CANCELLED);
	assert_int_equal(state_after(ADD START(1)), JOB_RUNNING);
	assert_int_equal(state_after(ADD START(1) ON(hold)), JOB_RUNNING);
	assert_int_equal(state_after(ADD START(1) END(1, completed)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD START(1) END(1, failed)), JOB_FAILED);
	assert_int_equal(state_after(ADD START(1) ON(cancel)), JOB_RUNNING);
	/* A job that finished before the cancellation reached it is finished. */
	assert_int_equal(state_after(ADD START(1) ON(cancel) END(1, completed)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD_RETRY START(1) END(1, failed)), JOB_PENDING);
	assert_int_equal(state_after(ADD_RETRY START(1) ON(cancel) END(1, failed)), JOB_CANCELLED);
	assert_int_equal(state_after(ADD_RETRY START(1) END(1, failed) START(2) END(2, failed)), JOB_FAILED);
	assert_int_equal(state_after(ADD_RETRY START(1) END(1, failed) START(2) END(2, failed) ON(retry) START(3)
					 END(3, failed)),
		JOB_PENDING);
}

static void test_state_of_a_job_of_which_a_record_was_lost(void **state)
{
	(void)state;
	/* An end counts without its start, and a repeated or late start does not. */
	assert_int_equal(state_after(ADD END(1, completed)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD END(1, completed) START(1)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD START(1) END(1, completed) START(1)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD START(1) END(1, failed) END(1, completed)), JOB_FAILED);
	assert_int_equal(state_after(ADD START(1) START(2) END(1, completed)), JOB_RUNNING);
	assert_int_equal(state_after(ADD START(2) START(1)), JOB_RUNNING);
	/* Unknown until it ends or a user decides. */
	assert_int_equal(state_after(ADD ON(unknown)), JOB_UNKNOWN);
	assert_int_equal(state_after(ADD ON(unknown) ON(hold)), JOB_UNKNOWN);
	assert_int_equal(state_after(ADD ON(unknown) ON(retry)), JOB_PENDING);
	assert_int_equal(state_after(ADD ON(unknown) ON(cancel)), JOB_CANCELLED);
	assert_int_equal(state_after(ADD START(1) ON(unknown) END(1, completed)), JOB_COMPLETED);
	assert_int_equal(state_after(ADD_RETRY START(1) ON(unknown) END(1, failed)), JOB_UNKNOWN);
	assert_int_equal(state_after(ADD START(1) END(1, completed) ON(unknown)), JOB_COMPLETED);
}

static void test_attempt_that_was_interrupted_or_void_does_not_count(void **state)
{
	(void)state;
	assert_int_equal(state_after(ADD START(1) ON(interrupted)), JOB_PENDING);
	assert_int_equal(state_after(ADD START(1) ON(void)), JOB_PENDING);
	assert_int_equal(state_after(ADD_RETRY START(1) ON(interrupted) START(2) END(2, failed)), JOB_PENDING);
	assert_int_equal(state_after(ADD_RETRY START(1) END(1, failed) START(2) END(2, failed)), JOB_FAILED);
	assert_int_equal(state_after(ADD START(1) ON(cancel) ON(interrupted)), JOB_CANCELLED);
}

static void test_folder_that_is_renamed_away_is_waited_for_longer_than_a_removed_one(void **state)
{
	(void)state;
	struct journal *j;
	char name[512];
	assert_int_equal(mkdir("folder", 0700), 0);
	snprintf(name, sizeof(name), "%s/folder/jobs.jsonl", scratch_path());
	assert_int_equal(journal_open(name, false, &j, NULL), 0);
	assert_int_equal(journal_absence_limit_ms(j), 0);
	assert_int_equal(rename("folder", "away"), 0);
	assert_int_equal(journal_absence_limit_ms(j), JOURNAL_RENAMED_MS);
	assert_int_equal(rename("away", "folder"), 0);
	assert_int_equal(journal_absence_limit_ms(j), 0);
	assert_int_equal(system("rm -r folder"), 0);
	assert_int_equal(journal_absence_limit_ms(j), JOURNAL_REMOVED_MS);
	journal_close(j);
}

static int count_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	(void)line_no, (void)line, (void)size;
	++*(int *)context;
	return 0;
}

static void test_hole_that_fills_the_memory_is_an_error(void **state)
{
	(void)state;
	struct journal_reader r;
	struct gd_error err = {0};
	int lines = 0;
	scratch_write_text("huge.jsonl", "one\ntwo\n"); /* damaged lines */
	assert_int_equal(truncate("huge.jsonl", (off_t)1 << 40), 0);
	assert_int_equal(journal_reader_init(&r, "huge.jsonl"), 0);
	for (int i = 0; i < 2; i++) {
		int e = journal_reader_read(&r, count_line, &lines);
		assert_int_equal(e, -EFBIG);
		assert_int_equal(journal_reader_explain(&r, e, &err), -EFBIG);
		assert_string_equal(err.message,
			"cannot read journal 'huge.jsonl': it has more than 64 MiB of holes: the file is damaged; move it away");
	}
	assert_int_equal(lines, 0);
	assert_true(r.capacity <= JOURNAL_MAX_LINE_BYTES);
	journal_reader_finish(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ids_go_up_across_processes, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_torn_tail_is_cut_by_the_next_append_and_raises_the_fence, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_tail_of_zeros_after_a_power_cut_is_cut_by_the_next_append, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_lines_of_a_process_that_died_before_it_wrote_the_counters_count, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(test_lock_that_cannot_be_released_is_given_up, set_up, scratch_leave),
		cmocka_unit_test(test_state_of_a_job_of_which_a_record_was_lost),
		cmocka_unit_test(test_attempt_that_was_interrupted_or_void_does_not_count),
		cmocka_unit_test_setup_teardown(test_fence_changes_only_when_it_is_raised, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_folder_that_is_renamed_away_is_waited_for_longer_than_a_removed_one, set_up,
			scratch_leave),
		cmocka_unit_test_setup_teardown(test_hole_that_fills_the_memory_is_an_error, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_replaced_lock_is_used_though_the_old_one_has_another_name, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(test_replaced_file_is_read_to_its_end_first, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(test_file_that_has_become_shorter_is_read_again, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_replaced_file_is_reported_even_if_it_was_found_in_between, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(test_lock_names_its_holder_and_ends_with_it, set_up, scratch_leave),
		cmocka_unit_test(test_state_of_a_job_follows_from_its_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
