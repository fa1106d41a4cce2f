/* SPDX-License-Identifier: MIT */
/* Limits on the cost of reading a journal that other users may have written. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cost_limit.h"
#include "base/text.h"
#include "queue/journal/journal.h"
#include "queue/journal/seal.h"
#include "support/scratch.h"

#define NAME "jobs.jsonl"
#define LINE "{\"event\":\"resume\"}"

static int count_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	(void)line_no, (void)line, (void)size;
	++*(size_t *)context;
	return 0;
}

static void add(struct text *t, uint64_t n)
{
	seal_append(t, LINE, sizeof(LINE) - 1, n);
}

static void write_file(const struct text *t, mode_t mode)
{
	scratch_write(NAME, t->data, t->length);
	assert_int_equal(chmod(NAME, mode), 0);
}

/* Reads the file, again after a reset, and returns the code; err has the message. */
static int read_file(size_t *ret_lines, struct gd_error *err)
{
	struct journal_reader r;
	int e;
	assert_int_equal(journal_reader_init(&r, NAME), 0);
	do {
		*ret_lines = 0;
		e = journal_reader_read(&r, count_line, ret_lines);
	} while (e == 1);
	if (e < 0)
		journal_reader_explain(&r, e, err);
	journal_reader_finish(&r);
	return e;
}

static void expect_refusal(const char *words)
{
	struct gd_error err = {0};
	size_t lines;
	assert_int_equal(read_file(&lines, &err), -EFBIG);
	assert_non_null(strstr(err.message, words));
	/* No limit for the owner's own file. */
	assert_int_equal(chmod(NAME, 0600), 0);
	assert_int_equal(read_file(&lines, &err), 0);
	assert_int_equal(chmod(NAME, 0666), 0);
	setenv("GPUQ_TRUST", "1", 1);
	assert_int_equal(read_file(&lines, &err), 0);
	unsetenv("GPUQ_TRUST");
}

static void test_long_line_of_another_user_is_refused(void **state)
{
	(void)state;
	struct text t = {0};
	add(&t, 1);
	for (size_t i = 0; i < JOURNAL_MAX_FOREIGN_LINE_BYTES + 2; i++)
		text_append_char(&t, 'x');
	text_append_char(&t, '\n');
	write_file(&t, 0666);
	expect_refusal("line 2 is longer than 4 MiB");
	text_finish(&t);
}

static void test_many_lines_out_of_order_of_another_user_are_refused(void **state)
{
	(void)state;
	struct text t = {0};
	add(&t, 1);
	add(&t, 3);
	add(&t, 2);
	for (size_t i = 0; i < JOURNAL_MAX_FOREIGN_SORTED; i++)
		text_append_char(&t, '\n');
	write_file(&t, 0666);
	expect_refusal("can be written by everybody and its lines are out of order; set GPUQ_TRUST=1");
	text_finish(&t);
}

static void test_many_gaps_of_another_user_are_refused(void **state)
{
	(void)state;
	struct text t = {0};
	for (uint64_t i = 0; i <= JOURNAL_MAX_FOREIGN_GAPS + 1; i++)
		add(&t, 1 + 2 * i);
	write_file(&t, 0666);
	expect_refusal("has too many gaps");
	text_finish(&t);
}

static void test_large_journal_of_another_user_is_refused(void **state)
{
	(void)state;
	struct gd_error err = {0};
	size_t lines;
	scratch_write_text(NAME, "");
	assert_int_equal(chmod(NAME, 0666), 0);
	assert_int_equal(truncate(NAME, JOURNAL_MAX_FOREIGN_BYTES + 1), 0);
	assert_int_equal(read_file(&lines, &err), -EFBIG);
	assert_non_null(strstr(err.message, "is larger than 256 MiB"));
}

/* Lines within the limit, and a file that is mostly sparse. */
static void test_own_journal_of_holes_is_damaged(void **state)
{
	(void)state;
	struct gd_error err = {0};
	size_t lines;
	scratch_write_text(NAME, "");
	int fd = open(NAME, O_WRONLY | O_CLOEXEC);
	for (off_t at = 1; at <= 4; at++)
		assert_int_equal(pwrite(fd, "\n", 1, at * ((off_t)60 << 20)), 1);
	close(fd);
	assert_int_equal(read_file(&lines, &err), -EFBIG);
	assert_non_null(strstr(err.message, "it has more than 64 MiB of holes: the file is damaged; move it away"));
}

static void test_slow_journal_of_another_user_is_given_up(void **state)
{
	(void)state;
	struct gd_error err = {0};
	struct journal_reader r;
	struct text t = {0};
	size_t lines = 0;
	add(&t, 1);
	write_file(&t, 0666);
	assert_int_equal(journal_reader_init(&r, NAME), 0);
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	for (uint64_t n = 2; n < 2000; n++)
		add(&t, n);
	int fd = open(NAME, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, t.data, t.length), t.length);
	close(fd);
	r.limits.max_cpu_ns = 0;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), -ETIME);
	journal_reader_explain(&r, -ETIME, &err);
	assert_non_null(strstr(err.message, "takes too long to read; set GPUQ_TRUST=1"));
	r.limits.max_cpu_ns = JOURNAL_MAX_FOREIGN_CPU_NS;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	journal_reader_finish(&r);
	text_finish(&t);
}

struct growing {
	int fd;
	size_t lines, most;
};

static int append_same(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct growing *g = context;
	(void)line_no, (void)line;
	if (++g->lines >= g->most)
		return -E2BIG;
	return write(g->fd, line, size) == (ssize_t)size && write(g->fd, "\n", 1) == 1 ? 0 : -EIO;
}

static void test_journal_that_grows_while_it_is_read_has_an_end(void **state)
{
	(void)state;
	enum { LINES = 40000 };
	struct journal_reader r;
	struct text t = {0};
	for (int i = 0; i < LINES; i++)
		text_append_string(&t, "a line without a seal, which is damaged, so that reading it is simple\n");
	write_file(&t, 0600);
	struct growing g = {.fd = open(NAME, O_WRONLY | O_APPEND | O_CLOEXEC), .most = LINES * 4};
	assert_int_equal(journal_reader_init(&r, NAME), 0);
	assert_int_equal(journal_reader_read(&r, append_same, &g), 0);
	assert_int_equal(g.lines, LINES);
	/* The next call reads the rest. */
	size_t lines = 0;
	assert_int_equal(journal_reader_read(&r, count_line, &lines), 0);
	assert_int_equal(lines, LINES);
	journal_reader_finish(&r);
	close(g.fd);
	text_finish(&t);
}

/* Reads the journal in a process of its own, then computes. Returns its exit code. */
static int compute_after_reading(void)
{
	size_t lines;
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		cost_limit_enable(30 * NS_PER_MS, SIZE_MAX / 2, "");
		int r = read_file(&lines, NULL);
		clock_t end = clock() + CLOCKS_PER_SEC / 10;
		while (r == 0 && clock() < end)
			continue;
		_exit(r == 0 ? 7 : 8);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_computations_after_reading_are_limited(void **state)
{
	cleanup_(text_finish) struct text t = {0};
	(void)state;
	add(&t, 1);
	write_file(&t, 0644);
	assert_int_equal(compute_after_reading(), 7);
	write_file(&t, 0666);
	assert_int_equal(compute_after_reading(), COST_LIMIT_EXIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_long_line_of_another_user_is_refused),
		scratch_test(test_many_lines_out_of_order_of_another_user_are_refused),
		scratch_test(test_many_gaps_of_another_user_are_refused),
		scratch_test(test_large_journal_of_another_user_is_refused),
		scratch_test(test_own_journal_of_holes_is_damaged),
		scratch_test(test_slow_journal_of_another_user_is_given_up),
		scratch_test(test_journal_that_grows_while_it_is_read_has_an_end),
		scratch_test(test_computations_after_reading_are_limited),
	};
	return cmocka_run_group_tests_name("journal_limits", tests, NULL, NULL);
}
