/* SPDX-License-Identifier: MIT */
/* Files that another user may have written, or that are not journals: neither executed nor changed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/machine.h"
#include "queue/journal/archive.h"
#include "queue/journal/draft.h"
#include "queue/journal/environment.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal.h"
#include "queue/journal/prune.h"
#include "queue/journal/record.h"
#include "support/process.h"
#include "support/scratch.h"

#define HEADER                                                                                                         \
	"{\"event\":\"journal\",\"version\":2,\"queue\":\"0123456789abcdef0123456789abcd"                              \
	"ef\",\"generation\":1,\"n\":1,\"c\":\"5cf4bbc7\"}\n"
#define ADD "{\"event\":\"add\",\"id\":1,\"command\":\"x\"}\n"
/* The same as the second and the third line of a file. */
#define ADD_2 "{\"event\":\"add\",\"id\":1,\"command\":\"x\",\"n\":2,\"c\":\"219de95b\"}\n"
#define ADD_3 "{\"event\":\"add\",\"id\":1,\"command\":\"x\",\"n\":3,\"c\":\"d3f66a58\"}\n"
/* An unused user id. */
#define OTHER 54321

static void write_file(const char *path, const char *text, mode_t mode)
{
	scratch_write_text(path, text);
	check_equal(chmod(path, mode), 0);
}

static struct journal *opened(void)
{
	struct journal *j;
	struct gd_error err = {0};
	if (journal_open("jobs.jsonl", false, &j, &err) < 0)
		check_failed(__FILE__, __LINE__, err.message);
	return j;
}

/* Opening it fails with this error and changes nothing. */
static void refused(const char *path, int code, const char *words)
{
	struct journal *j;
	struct gd_error err = {0};
	check_equal(journal_open(path, false, &j, &err), code);
	check_contains(err.message, words);
}

static int count_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	(void)line_no;
	(void)line;
	(void)size;
	++*(int *)context;
	return 0;
}

static void test_file_that_everybody_can_write_is_opened_only_if_accepted(void **state)
{
	(void)state;
	struct journal *j;
	write_file("jobs.jsonl", HEADER ADD_2, 0666);
	refused("jobs.jsonl", -EPERM, "it can be written by everybody");
	assert_string_equal(scratch_read("jobs.jsonl"), HEADER ADD_2);
	assert_false(scratch_has("jobs.jsonl.d"));
	assert_int_equal(journal_open("jobs.jsonl", true, &j, NULL), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
	journal_close(j);
}

/* Others may have been able to write to the directory. */
static void test_archive_is_checked_like_its_journal(void **state)
{
	(void)state;
	struct jobs js;
	struct gd_error err = {0};
	write_file("jobs.jsonl", HEADER, 0600);
	assert_int_equal(archive_read("jobs.jsonl", true, &js, &err), 0);
	assert_int_equal(js.count, 0);
	jobs_finish(&js);
	write_file("jobs.jsonl.archive", ADD_2, 0600);
	assert_int_equal(archive_read("jobs.jsonl", true, &js, &err), 0);
	assert_int_equal(js.count, 1);
	jobs_finish(&js);
	write_file("jobs.jsonl.archive", ADD_2, 0666);
	assert_int_equal(archive_read("jobs.jsonl", true, &js, &err), -EPERM);
	check_contains(err.message, "'jobs.jsonl.archive': it can be written by everybody");
	assert_int_equal(archive_read("jobs.jsonl", false, &js, &err), 0);
	assert_int_equal(js.count, 1);
	jobs_finish(&js);
	if (geteuid() != 0)
		return;
	write_file("jobs.jsonl.archive", ADD_2, 0644);
	assert_int_equal(chown("jobs.jsonl.archive", OTHER, OTHER), 0);
	assert_int_equal(archive_read("jobs.jsonl", true, &js, &err), -EPERM);
	check_contains(err.message, "belongs to another user");
}

static void test_file_that_is_put_in_place_is_checked_before_it_is_written(void **state)
{
	(void)state;
	struct journal *j = opened();
	struct gd_error err = {0};
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
	assert_int_equal(rename("jobs.jsonl", "kept"), 0);
	write_file("jobs.jsonl", HEADER, 0666);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -EPERM);
	check_contains(err.message, "it can be written by everybody");
	assert_string_equal(scratch_read("jobs.jsonl"), HEADER);
	write_file("jobs.jsonl", "a checkpoint", 0600);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -EINVAL);
	check_contains(err.message, "it is not a journal");
	assert_string_equal(scratch_read("jobs.jsonl"), "a checkpoint");
	assert_int_equal(unlink("jobs.jsonl"), 0);
	assert_int_equal(symlink("kept", "jobs.jsonl"), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -ELOOP);
	assert_int_equal(rename("kept", "jobs.jsonl"), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	journal_close(j);
}

static void test_reader_that_acts_on_lines_reads_no_file_of_others(void **state)
{
	(void)state;
	struct journal_reader r;
	int lines = 0;
	write_file("jobs.jsonl", HEADER, 0600);
	assert_int_equal(journal_reader_init(&r, "jobs.jsonl"), 0);
	r.checked = true;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	write_file("draft", HEADER ADD_2, 0666);
	assert_int_equal(rename("draft", "jobs.jsonl"), 0);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 1);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), -EPERM);
	check_contains(r.refusal.message, "it can be written by everybody");
	assert_int_equal(lines, 1);
	r.checked = false;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	assert_int_equal(lines, 3);
	journal_reader_finish(&r);
}

/* In a directory in which others can rename files, or below one in which they can rename directories. */
static void test_queue_in_a_directory_that_others_can_write_is_used_only_if_accepted(void **state)
{
	(void)state;
	static const char *const names[] = {"open/jobs.jsonl", "open/mine/jobs.jsonl"};
	struct journal *j;
	assert_int_equal(mkdir("open", 0700) | mkdir("open/mine", 0700) | chmod("open", 0777), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char folder[64];
		snprintf(folder, sizeof(folder), "%s.d", names[i]);
		refused(names[i], -EPERM,
			"/open' can be written by everybody, so other users could run commands as you; ");
		assert_false(scratch_has(names[i]));
		write_file(names[i], HEADER ADD_2, 0600);
		refused(names[i], -EPERM, "/open' can be written by everybody");
		assert_string_equal(scratch_read(names[i]), HEADER ADD_2);
		assert_false(scratch_has(folder));
		assert_int_equal(journal_open(names[i], true, &j, NULL), 0);
		assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
		journal_close(j);
		/* In a sticky directory, other users cannot rename a directory of this user, but can add files. */
		assert_int_equal(chmod("open", 01777), 0);
		if (i == 0) {
			refused(names[i], -EPERM, "/open' can be written by everybody");
		} else {
			assert_int_equal(journal_open(names[i], false, &j, NULL), 0);
			assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
			journal_close(j);
		}
		assert_int_equal(chmod("open", 0777), 0);
	}
}

static void test_directory_is_looked_at_whenever_the_journal_is_opened_again(void **state)
{
	(void)state;
	struct journal *j;
	struct journal_reader r, later;
	struct draft d;
	struct gd_error err = {0};
	int lines = 0;
	assert_int_equal(mkdir("open", 0700), 0);
	assert_int_equal(journal_open("open/jobs.jsonl", false, &j, &err), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	assert_int_equal(journal_reader_init_at(&r, j) | journal_reader_init_at(&later, j), 0);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	assert_int_equal(lines, 2);
	assert_int_equal(chmod("open", 0777), 0);
	assert_int_equal(rename("open/jobs.jsonl", "open/kept"), 0);
	write_file("open/jobs.jsonl", HEADER ADD_2, 0600);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 1);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), -EPERM);
	assert_int_equal(journal_reader_explain(&r, -EPERM, &err), -EPERM);
	check_contains(err.message, "/open' can be written by everybody");
	assert_int_equal(journal_reader_read(&later, count_line, &lines), -EPERM);
	assert_int_equal(lines, 2);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -EPERM);
	assert_string_equal(scratch_read("open/jobs.jsonl"), HEADER ADD_2);
	assert_int_equal(rename("open/kept", "open/jobs.jsonl") | chmod("open", 0755), 0);
	/* A new generation is read. */
	assert_int_equal(journal_lock(j, &err) | draft_open(&d, j, &err) | draft_sync(&d) | draft_commit(&d, &err), 0);
	draft_close(&d);
	journal_unlock(j);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	assert_int_equal(lines, 3);
	journal_reader_finish(&r);
	journal_reader_finish(&later);
	journal_close(j);
}

static void test_file_is_changed_only_if_it_is_a_journal(void **state)
{
	(void)state;
	static const char *const others[] = {"x", "text\n", "\n", "{}\n", "{\"event\":\"other\"}\n", ADD,
		"{\"event\":\"journalist\"", "{\"status\":\"done\"}\n"};
	static const char *const journals[] = {
		"", "{", "{\"event\":\"jour", HEADER, HEADER "torn", "{\"command\":\"x\",\"status\":\"completed\"}\n"};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		write_file("jobs.jsonl", others[i], 0600);
		refused("jobs.jsonl", -EINVAL, "it is not a journal of gpuq");
		assert_string_equal(scratch_read("jobs.jsonl"), others[i]);
		assert_false(scratch_has("jobs.jsonl.d"));
	}
	for (size_t i = 0; i < sizeof(journals) / sizeof(*journals); i++) {
		char name[32];
		struct journal *j;
		snprintf(name, sizeof(name), "journal%zu", i);
		write_file(name, journals[i], 0600);
		assert_int_equal(journal_open(name, false, &j, NULL), 0);
		assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
		journal_close(j);
		check_contains(scratch_read(name), "}\n{\"event\":\"add\",\"id\":1,\"command\":\"x\",\"n\":");
	}
	write_file("jobs.jsonl", "{\"event\":\"journal\",\"version\":1}\n" ADD, 0600);
	refused("jobs.jsonl", -EPROTONOSUPPORT, "it has version 1, which was never released");
	assert_false(scratch_has("jobs.jsonl.d"));
}

static void test_journal_and_link_of_another_user_are_refused(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	write_file("jobs.jsonl", HEADER, 0600);
	assert_int_equal(symlink("jobs.jsonl", "link"), 0);
	journal_close(opened());
	assert_int_equal(lchown("link", OTHER, OTHER), 0);
	refused("link", -EPERM, "it is a symbolic link of another user");
	assert_int_equal(symlink(".", "here") | lchown("here", OTHER, OTHER), 0);
	refused("here/jobs.jsonl", -EPERM, "it has a symbolic link of another user in its path");
	refused("here/new.jsonl", -EPERM, "it has a symbolic link of another user in its path");
	assert_false(scratch_has("new.jsonl"));
	assert_int_equal(chown("jobs.jsonl", OTHER, OTHER), 0);
	refused("jobs.jsonl", -EPERM, "and root never runs or changes a queue of another user");
	assert_int_equal(chown("jobs.jsonl", 0, 0), 0);
	assert_int_equal(chown("jobs.jsonl.d", OTHER, OTHER), 0);
	refused("jobs.jsonl", -EPERM, "jobs.jsonl.d': it belongs to another user");
	assert_int_equal(mkdir("theirs", 0755) | chown("theirs", OTHER, OTHER), 0);
	refused("theirs/jobs.jsonl", -EPERM, "/theirs' belongs to another user, so other users could");
}

/* The user moves the directory and puts a link to another queue in its place. */
static void test_journal_stays_in_its_directory(void **state)
{
	(void)state;
	struct journal *j;
	struct prune_result pruned;
	struct gd_error err = {0};
	assert_int_equal(mkdir("project", 0700) | mkdir("other", 0700), 0);
	write_file("project/jobs.jsonl", "{\"command\":\"x\",\"status\":\"completed\"}\n", 0600);
	write_file("other/jobs.jsonl", HEADER ADD_2, 0600);
	assert_int_equal(journal_open("project/jobs.jsonl", false, &j, &err), 0);
	assert_int_equal(journal_lock(j, &err), 0);
	assert_int_equal(rename("project", "kept") | symlink("other", "project"), 0);
	struct draft d;
	assert_int_equal(draft_open(&d, j, &err), 0);
	assert_int_equal(draft_sync(&d), 0);
	assert_int_equal(draft_commit(&d, &err), 0);
	draft_close(&d);
	assert_int_equal(journal_append(j, ADD, strlen(ADD), NULL, &err), 0);
	journal_unlock(j);
	check_contains(scratch_read("kept/jobs.jsonl"), ADD_2);
	/* It is used at its new place. */
	assert_true(journal_is_moved(j));
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	assert_true(j->moved);
	check_contains(scratch_read("kept/jobs.jsonl"), ADD_2 ADD_3);
	assert_int_equal(prune(j, &(struct prune_choice){.before_ms = INT64_MAX}, &pruned, &err), 0);
	assert_int_equal(unlink("project"), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	/* Nothing is written while others can write to a directory above it. */
	assert_int_equal(mkdir("open", 0700) | chmod("open", 0777) | rename("kept", "open/kept"), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -EPERM);
	check_contains(err.message, "/open' can be written by everybody");
	assert_int_equal(rename("open/kept", "project"), 0);
	assert_false(journal_is_moved(j));
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	assert_false(j->moved);
	journal_close(j);
	assert_string_equal(scratch_read("other/jobs.jsonl"), HEADER ADD_2);
	assert_false(scratch_has("other/jobs.jsonl.d"));
	assert_false(scratch_has("other/jobs.jsonl.archive"));
}

static void test_directory_that_was_removed_and_made_again_is_used(void **state)
{
	(void)state;
	struct journal *j;
	struct gd_error err = {0};
	char removed[SCRATCH_PATH_SIZE + 16];
	assert_int_equal(mkdir("project", 0700), 0);
	assert_int_equal(journal_open("project/jobs.jsonl", false, &j, &err), 0);
	snprintf(removed, sizeof(removed), "%s/project", scratch_path());
	assert_int_equal(scratch_remove(removed), 0);
	assert_int_equal(journal_absence_limit_ms(j), JOURNAL_REMOVED_MS);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), -ENOENT);
	check_contains(err.message, "project/jobs.jsonl': directory '");
	assert_int_equal(mkdir("project", 0700), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), &err), 0);
	check_contains(scratch_read("project/jobs.jsonl"), "}\n" ADD_2);
	journal_close(j);
}

/* A pipe, a sparse file and a link where the environment of a job should be: reading needs no trust. */
static mode_t mode_of(const char *path)
{
	struct stat st;
	check_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* Whether another process can lock the file. */
static bool is_free(const char *path)
{
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		_exit(fd >= 0 && lock_try(fd) == 0);
	}
	return process_exit_code(pid) != 0;
}

static void test_others_lose_access_to_locks_but_a_runner_keeps_its_lock(void **state)
{
	(void)state;
	journal_close(opened());
	int fd = open("jobs.jsonl.d/runner.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	check_equal(lock_try(fd), 0);
	check_equal(chmod("jobs.jsonl.d", 0755), 0);
	check_equal(chmod("jobs.jsonl.d/append.lock", 0644), 0);
	check_equal(chmod("jobs.jsonl.d/runner.lock", 0644), 0);
	journal_close(opened());
	check_equal(mode_of("jobs.jsonl.d/append.lock"), 0600);
	check_equal(mode_of("jobs.jsonl.d/runner.lock"), 0600);
	check_equal(mode_of("jobs.jsonl.d"), 0755);
	check_true(!is_free("jobs.jsonl.d/runner.lock"));
	close(fd);
	check_true(is_free("jobs.jsonl.d/runner.lock"));
}

static void test_environment_is_a_small_regular_file(void **state)
{
	(void)state;
	char *text;
	size_t size;
	int dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir_fd >= 0);
	assert_int_equal(mkdir("env", 0700), 0);
	assert_int_equal(mkfifo("env/pipe", 0600), 0);
	assert_int_equal(environment_load(dir_fd, "pipe", ENVIRONMENT_OF_ANYBODY, &text, &size), -EINVAL);
	write_file("env/large", "", 0600);
	assert_int_equal(truncate("env/large", (off_t)1 << 40), 0);
	assert_int_equal(environment_load(dir_fd, "large", ENVIRONMENT_OF_ANYBODY, &text, &size), -EFBIG);
	assert_int_equal(symlink("large", "env/link"), 0);
	assert_true(environment_load(dir_fd, "link", ENVIRONMENT_OF_ANYBODY, &text, &size) < 0);
	close(dir_fd);
}

/* The folder may be another user's, and the reader's private files must not be shown as an environment. */
static void test_environment_is_not_read_through_a_link(void **state)
{
	(void)state;
	char *text = NULL;
	size_t size;
	int dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdir("private", 0700) | symlink("private", "env"), 0);
	write_file("private/key", "secret", 0600);
	assert_true(environment_load(dir_fd, "key", ENVIRONMENT_OF_ANYBODY, &text, &size) < 0);
	/* A directory in its place can contain a file of the reader that the other user has moved there. */
	assert_int_equal(unlink("env") | rename("private", "env"), 0);
	assert_int_equal(environment_load(dir_fd, "key", geteuid() + 1, &text, &size), -EPERM);
	assert_int_equal(environment_load(dir_fd, "key", geteuid(), &text, &size), 0);
	assert_memory_equal(text, "secret", 7);
	assert_int_equal(size, 6);
	free(text);
	close(dir_fd);
}

/* Opening a device can have effects, so only regular files are opened. */
static void test_reading_opens_regular_files_only(void **state)
{
	(void)state;
	struct journal_reader r;
	char *text, event[sizeof(struct inotify_event) + NAME_MAX + 1];
	size_t size;
	pid_t holder;
	int lines = 0, dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), watch_fd = inotify_init1(IN_NONBLOCK);
	assert_int_equal(mkdir("env", 0700), 0);
	assert_int_equal(mkfifo("env/watchdog", 0600), 0);
	assert_true(inotify_add_watch(watch_fd, "env/watchdog", IN_OPEN) >= 0);
	assert_int_equal(journal_reader_init(&r, "env/watchdog"), 0);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), -EINVAL);
	journal_reader_finish(&r);
	assert_int_equal(environment_load(dir_fd, "watchdog", ENVIRONMENT_OF_ANYBODY, &text, &size), -EINVAL);
	assert_int_equal(lock_holder_at(dir_fd, "env/watchdog", &holder), -EINVAL);
	assert_true(read(watch_fd, event, sizeof(event)) < 0 && errno == EAGAIN);
	/* The watch works. */
	close(open("env/watchdog", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	assert_true(read(watch_fd, event, sizeof(event)) > 0);
	close(watch_fd);
	close(dir_fd);
}

static void test_folder_is_not_opened_through_a_link_of_another_user(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir("private", 0700) | mkdir("private/jobs.jsonl.d", 0700), 0);
	assert_int_equal(symlink("private", "own") | symlink("private", "foreign"), 0);
	assert_int_equal(lchown("foreign", OTHER, OTHER), 0);
	int fd = follow_open_folder("own/jobs.jsonl");
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(follow_open_folder("foreign/jobs.jsonl"), -EPERM);
	assert_int_equal(follow_open_folder("own/other.jsonl"), -ENOENT);
}

/* A queue with a running job, whose keeper `k1` of this machine is dead. */
static void start_job_of_dead_keeper(void)
{
	struct machine here;
	cleanup_(text_finish) struct text t = {0};
	struct job_spec spec = {.command = "x", .command_size = 1};
	struct journal *j = opened();
	assert_int_equal(machine_get(&here) | journal_lock(j, NULL), 0);
	uint64_t id = journal_take_ids(j, 1);
	record_write_add(&t, id, 5000, &spec);
	record_write_keeper(&t, "k1", 1, &here, "");
	record_write_start(&t, &(struct attempt_start){.id = id, .attempt = 1, .pid = 1, .keeper = "k1", .log = "/l"});
	assert_int_equal(journal_append(j, t.data, t.length, NULL, NULL), 0);
	journal_unlock(j);
	journal_close(j);
}

/* A link can lead to an automount, and a chain of links takes long, for each job of the journal. */
static void test_link_to_keepers_is_not_followed(void **state)
{
	(void)state;
	struct follow f;
	start_job_of_dead_keeper();
	assert_int_equal(follow_open("jobs.jsonl", false, &f, NULL), 0);
	assert_true(follow_is_lost(&f, 1));
	write_file("jobs.jsonl.d/keepers/k1", "", 0600);
	assert_true(follow_is_lost(&f, 1));
	assert_int_equal(rename("jobs.jsonl.d/keepers", "moved") | symlink("../moved", "jobs.jsonl.d/keepers"), 0);
	assert_false(follow_is_lost(&f, 1));
	follow_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_file_that_everybody_can_write_is_opened_only_if_accepted),
		scratch_test(test_archive_is_checked_like_its_journal),
		scratch_test(test_folder_is_not_opened_through_a_link_of_another_user),
		scratch_test(test_file_that_is_put_in_place_is_checked_before_it_is_written),
		scratch_test(test_reader_that_acts_on_lines_reads_no_file_of_others),
		scratch_test(test_queue_in_a_directory_that_others_can_write_is_used_only_if_accepted),
		scratch_test(test_directory_is_looked_at_whenever_the_journal_is_opened_again),
		scratch_test(test_file_is_changed_only_if_it_is_a_journal),
		scratch_test(test_journal_and_link_of_another_user_are_refused),
		scratch_test(test_journal_stays_in_its_directory),
		scratch_test(test_directory_that_was_removed_and_made_again_is_used),
		scratch_test(test_others_lose_access_to_locks_but_a_runner_keeps_its_lock),
		scratch_test(test_environment_is_a_small_regular_file),
		scratch_test(test_environment_is_not_read_through_a_link),
		scratch_test(test_reading_opens_regular_files_only),
		scratch_test(test_link_to_keepers_is_not_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
