/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd_message.h"

static int open_ends(void **state)
{
	static int ends[2];
	*state = ends;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int close_ends(void **state)
{
	int *ends = *state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* The number that the next descriptor will have: shows whether a descriptor leaked. */
static int next_fd(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void test_descriptors_travel_with_the_bytes_and_are_close_on_exec(void **state)
{
	const int *ends = *state;
	int number = 42, got = 0, before = next_fd();
	const int sent[3] = {ends[0], ends[1], ends[0]};
	assert_int_equal(fd_message_send(ends[0], &number, sizeof(number), sent, 3, 0), 0);
	struct fd_message m;
	assert_int_equal(fd_message_receive(ends[1], &got, sizeof(got), MSG_DONTWAIT, &m), sizeof(got));
	assert_int_equal(got, 42);
	assert_int_equal(m.num_fds, 3);
	assert_false(m.truncated);
	for (size_t i = 0; i < 3; i++) {
		assert_true(is_same_file(m.fds[i], sent[i]));
		assert_true(fcntl(m.fds[i], F_GETFD) & FD_CLOEXEC);
	}
	fd_message_close(&m);
	assert_int_equal(next_fd(), before);
}

static void test_a_message_without_descriptors_has_none(void **state)
{
	const int *ends = *state;
	char got = 0;
	assert_int_equal(fd_message_send(ends[0], "x", 1, NULL, 0, 0), 0);
	struct fd_message m;
	assert_int_equal(fd_message_receive(ends[1], &got, 1, MSG_DONTWAIT, &m), 1);
	assert_int_equal(got, 'x');
	assert_int_equal(m.num_fds, 0);
	assert_false(m.truncated);
}

static void test_no_message_and_the_end_of_the_stream_differ(void **state)
{
	int *ends = *state;
	char got;
	struct fd_message m;
	assert_int_equal(fd_message_receive(ends[1], &got, 1, MSG_DONTWAIT, &m), -EAGAIN);
	close(ends[0]);
	ends[0] = -1;
	assert_int_equal(fd_message_receive(ends[1], &got, 1, MSG_DONTWAIT, &m), 0);
	assert_int_equal(fd_message_send(ends[1], "x", 1, NULL, 0, 0), -EPIPE);
}

static void test_descriptors_of_an_empty_packet_are_not_left_open(void **state)
{
	const int *ends = *state;
	char got;
	struct fd_message m;
	int before = next_fd();
	assert_int_equal(fd_message_send(ends[0], "", 0, ends, 2, 0), 0);
	assert_int_equal(fd_message_receive(ends[1], &got, 1, MSG_DONTWAIT, &m), 0);
	assert_int_equal(next_fd(), before);
}

static void test_descriptors_beyond_the_limit_of_the_process_are_reported_as_missing(void **state)
{
	const int *ends = *state;
	char got;
	const int sent[2] = {ends[0], ends[1]};
	assert_int_equal(fd_message_send(ends[0], "x", 1, sent, 2, 0), 0);
	int before = next_fd();
	struct rlimit limit, tight;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	tight = (struct rlimit){.rlim_cur = (rlim_t)before + 1, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	struct fd_message m;
	ssize_t n = fd_message_receive(ends[1], &got, 1, MSG_DONTWAIT, &m);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(n, 1);
	assert_true(m.truncated);
	assert_int_equal(m.num_fds, 1);
	fd_message_close(&m);
	assert_int_equal(next_fd(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_descriptors_travel_with_the_bytes_and_are_close_on_exec, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_a_message_without_descriptors_has_none, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(
			test_no_message_and_the_end_of_the_stream_differ, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(
			test_descriptors_of_an_empty_packet_are_not_left_open, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(
			test_descriptors_beyond_the_limit_of_the_process_are_reported_as_missing, open_ends,
			close_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
