/* SPDX-License-Identifier: MIT */
/* Journals that another user can have written, or that are none: neither executed nor changed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/journal/journal.h"
#include "queue/journal/trust.h"
#include "support/scratch.h"

#define HEADER "{\"event\":\"journal\",\"version\":1}\n"
#define ADD    "{\"event\":\"add\",\"id\":1,\"command\":\"x\"}\n"
/* A user id that nobody has. */
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

/* Opening it fails so, and changes nothing. */
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
	write_file("jobs.jsonl", HEADER ADD, 0666);
	refused("jobs.jsonl", -EPERM, "it can be written by everybody");
	assert_string_equal(scratch_read("jobs.jsonl"), HEADER ADD);
	assert_false(scratch_has("jobs.jsonl.d"));
	assert_int_equal(journal_open("jobs.jsonl", true, &j, NULL), 0);
	assert_int_equal(journal_append_line(j, ADD, strlen(ADD), NULL), 0);
	journal_close(j);
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

static void test_reader_that_executes_reads_no_file_of_others(void **state)
{
	(void)state;
	struct journal_reader r;
	int lines = 0;
	write_file("jobs.jsonl", HEADER, 0600);
	assert_int_equal(journal_reader_init(&r, "jobs.jsonl"), 0);
	r.checked = true;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	write_file("draft", HEADER ADD, 0666);
	assert_int_equal(rename("draft", "jobs.jsonl"), 0);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 1);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), -EPERM);
	assert_string_equal(r.objection, "can be written by everybody");
	assert_int_equal(lines, 1);
	r.checked = false;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	assert_int_equal(lines, 3);
	journal_reader_finish(&r);
}

static void test_file_is_changed_only_if_it_is_a_journal(void **state)
{
	(void)state;
	static const char *const others[] = {"x", "text\n", "\n", "{}\n", "{\"event\":\"other\"}\n", ADD,
		"{\"event\":\"journalist\"", "{\"status\":\"done\"}\n"};
	static const char *const journals[] = {"", "{", "{\"event\":\"jour", HEADER, HEADER "torn",
		"{\"event\":\"journal\",\"version\":1}", "{\"command\":\"x\",\"status\":\"completed\"}\n"};
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
		check_contains(scratch_read(name), "}\n" ADD);
	}
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
	assert_int_equal(chown("jobs.jsonl", OTHER, OTHER), 0);
	refused("jobs.jsonl", -EPERM, "it belongs to another user");
	assert_int_equal(chown("jobs.jsonl", 0, 0), 0);
	assert_int_equal(chown("jobs.jsonl.d", OTHER, OTHER), 0);
	refused("jobs.jsonl", -EPERM, "jobs.jsonl.d': it belongs to another user");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_file_that_everybody_can_write_is_opened_only_if_accepted),
		scratch_test(test_file_that_is_put_in_place_is_checked_before_it_is_written),
		scratch_test(test_reader_that_executes_reads_no_file_of_others),
		scratch_test(test_file_is_changed_only_if_it_is_a_journal),
		scratch_test(test_journal_and_link_of_another_user_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
