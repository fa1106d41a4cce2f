/* SPDX-License-Identifier: MIT */
/* The bytes that a panel writes. See tests/cli/test_panel.py for the result in a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "view/panel/panel.h"

#define S NS_PER_S

static int fds[2];
static struct view_model *m;

static int setup(void **state)
{
	(void)state;
	m = view_model_create(0);
	return m && pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	view_model_destroy(m);
	close(fds[0]);
	close(fds[1]);
	return 0;
}

static const char *written(void)
{
	static char bytes[64 * 1024];
	ssize_t n = read(fds[0], bytes, sizeof(bytes) - 1);
	bytes[n > 0 ? n : 0] = 0;
	return bytes;
}

static void put(uint64_t done, uint64_t seconds)
{
	struct view_work w = {.title = "work", .total = 10, .done = done, .running = 1, .time_ns = seconds * S};
	assert_int_equal(view_put_work(m, &w), 0);
	for (int i = 0; i < 2; i++) {
		struct view_gpu g = {.id = i,
			.since_ns = -1,
			.last_duration_ns = -1,
			.memory_used_bytes = -1,
			.memory_total_bytes = -1,
			.utilization_percent = -1,
			.task = i ? "second" : "first"};
		assert_int_equal(view_put_gpu(m, &g), 0);
	}
}

static struct panel *live(void)
{
	struct panel *p = panel_create(&(struct panel_options){.fd = fds[1], .mode = PANEL_LIVE});
	assert_non_null(p);
	assert_int_equal(panel_mode(p), PANEL_LIVE);
	return p;
}

static void test_only_lines_that_changed_are_written(void **state)
{
	(void)state;
	struct panel *p = live();
	put(3, 1);
	panel_draw(p, m, 1 * S);
	const char *bytes = written();
	check_contains(bytes, "3/10");
	check_contains(bytes, "first");
	check_contains(bytes, "\033[?25l");

	panel_draw(p, m, 1 * S + 1); /* not due */
	assert_string_equal(written(), "");
	panel_draw(p, m, 1 * S + S / 2); /* due, but unchanged */
	assert_string_equal(written(), "");

	put(4, 1);
	panel_draw(p, m, 1 * S + S * 3 / 4);
	bytes = written();
	check_contains(bytes, "4/10");
	assert_null(strstr(bytes, "first"));
	assert_null(strstr(bytes, "\033[?25l"));
	assert_null(strstr(bytes, "\033[J"));
	panel_destroy(p, m, 2 * S);
}

static void test_lines_of_others_stay_above_and_share_a_frame(void **state)
{
	(void)state;
	struct panel *p = live();
	put(3, 1);
	panel_draw(p, m, 1 * S);
	written();
	panel_print(p, "one\n", 4);
	panel_print(p, "two", 3);
	assert_string_equal(written(), "");
	panel_draw(p, m, 2 * S);
	const char *bytes = written();
	const char *one = strstr(bytes, "\033[J\033[Aone\ntwo\n");
	assert_non_null(one);
	check_contains(one, "first");
	assert_int_equal(check_occurrences(bytes, "3/10"), 1);
	panel_destroy(p, m, 2 * S);
}

static void test_last_picture_stays_and_cursor_is_shown_again(void **state)
{
	(void)state;
	struct panel *p = live();
	put(3, 1);
	panel_draw(p, m, 1 * S);
	put(10, 2);
	written();
	panel_print(p, "last words\n", 11);
	panel_destroy(p, m, 1 * S + 1); /* although no frame is due */
	const char *bytes = written();
	const char *words = strstr(bytes, "last words\n");
	assert_non_null(words);
	check_contains(words, "10/10");
	size_t length = strlen(bytes);
	assert_string_equal(bytes + length - 6, "\033[?25h");
	/* Empty line, two lines of the head, empty line, titles, two GPUs. */
	assert_string_equal(bytes + length - 14, "\r\n\n\n\n\n\n\n\033[?25h");
}

static void test_a_panel_that_drew_nothing_leaves_nothing(void **state)
{
	(void)state;
	struct panel *p = live();
	panel_destroy(p, NULL, 0);
	assert_string_equal(written(), "");
}

/* The pipe is not read and is full. */
static void test_a_terminal_that_takes_nothing_delays_nothing(void **state)
{
	(void)state;
	static char block[1024 * 1024];
	struct panel *p = live();
	while (write(fds[1], block, sizeof(block)) > 0)
		;
	put(1, 1);
	panel_draw(p, m, 1 * S);
	put(2, 2);
	panel_draw(p, m, 2 * S);
	while (read(fds[0], block, sizeof(block)) > 0)
		;
	put(7, 3);
	panel_draw(p, m, 3 * S); /* the rest of the first frame, then this one */
	const char *bytes = written();
	check_contains(bytes, "1/10");
	assert_null(strstr(bytes, "2/10"));
	check_contains(bytes, "7/10");
	panel_destroy(p, m, 3 * S);
}

static void test_plain_lines_come_with_changes_and_not_too_often(void **state)
{
	(void)state;
	struct panel *p = panel_create(&(struct panel_options){.fd = fds[1], .plain_ns = 5 * S});
	assert_int_equal(panel_mode(p), PANEL_PLAIN); /* a pipe */
	put(1, 1);
	panel_draw(p, m, 1 * S);
	put(2, 2);
	panel_draw(p, m, 2 * S);
	assert_string_equal(written(), "");
	panel_draw(p, m, 6 * S);
	check_contains(written(), "work: 20%, 2/10 done");
	panel_draw(p, m, 12 * S); /* nothing new */
	assert_string_equal(written(), "");
	put(3, 13);
	panel_draw(p, m, 13 * S);
	assert_string_equal(written(), "");
	panel_print(p, "words\n", 6);
	assert_string_equal(written(), "words\n");
	panel_destroy(p, m, 14 * S); /* the last frame is always drawn */
	const char *bytes = written();
	check_contains(bytes, "3/10 done");
	assert_null(strchr(bytes, '\033'));
}

static void test_panel_that_is_off_writes_nothing(void **state)
{
	(void)state;
	struct panel *p = panel_create(&(struct panel_options){.fd = fds[1], .mode = PANEL_OFF});
	put(1, 1);
	panel_draw(p, m, 1 * S);
	panel_draw(p, m, 100 * S);
	panel_destroy(p, m, 100 * S);
	assert_string_equal(written(), "");
}

static void test_second_live_panel_falls_back_to_plain_lines(void **state)
{
	(void)state;
	struct panel *p = live();
	struct panel *q = panel_create(&(struct panel_options){.fd = fds[1], .mode = PANEL_LIVE});
	assert_int_equal(panel_mode(q), PANEL_PLAIN);
	panel_destroy(q, NULL, 0);
	panel_destroy(p, NULL, 0);
	p = live();
	panel_destroy(p, NULL, 0);
}

/* Runs a child that ends in this way with a panel on the screen. */
static int ending(void (*end)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		struct panel *p = live();
		put(3, 1);
		panel_draw(p, m, 1 * S);
		end();
		_exit(99);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void by_exit(void)
{
	exit(3);
}

static void by_interrupt(void)
{
	raise(SIGINT);
}

/* Not by a fault: sanitizers intercept those. */
static void by_termination(void)
{
	raise(SIGTERM);
}

static void check_given_back(void)
{
	const char *bytes = written();
	check_contains(bytes, "3/10");
	const char *end = bytes + strlen(bytes);
	assert_string_equal(end - 12, "\r\033[6B\n\033[?25h");
}

static void test_cursor_is_restored_on_exit_and_on_signals(void **state)
{
	(void)state;
	int status = ending(by_exit);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	check_given_back();
	status = ending(by_interrupt);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	check_given_back();
	status = ending(by_termination);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	check_given_back();
}

static void on_signal(int signal)
{
	(void)signal;
}

static void test_signals_of_the_program_stay_its_own(void **state)
{
	(void)state;
	struct sigaction own = {.sa_handler = on_signal}, seen;
	sigaction(SIGINT, &own, NULL);
	struct panel *p = live();
	sigaction(SIGINT, NULL, &seen);
	assert_ptr_equal(seen.sa_handler, on_signal);
	sigaction(SIGTERM, NULL, &seen);
	assert_ptr_not_equal(seen.sa_handler, SIG_DFL);
	panel_destroy(p, NULL, 0);
	sigaction(SIGTERM, NULL, &seen);
	assert_ptr_equal(seen.sa_handler, SIG_DFL);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_only_lines_that_changed_are_written),
		T(test_lines_of_others_stay_above_and_share_a_frame),
		T(test_last_picture_stays_and_cursor_is_shown_again),
		T(test_a_panel_that_drew_nothing_leaves_nothing),
		T(test_a_terminal_that_takes_nothing_delays_nothing),
		T(test_plain_lines_come_with_changes_and_not_too_often),
		T(test_panel_that_is_off_writes_nothing),
		T(test_second_live_panel_falls_back_to_plain_lines),
		T(test_cursor_is_restored_on_exit_and_on_signals),
		T(test_signals_of_the_program_stay_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
