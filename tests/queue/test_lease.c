/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "queue/keeper/lease.h"

/* As if the front forwards a signal while the keeper reports the end of the command and exits. */
static void test_last_message_of_a_keeper_that_exits_with_an_unread_one_is_received(void **state)
{
	(void)state;
	int fds[2];
	struct lease_message m = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(lease_send(fds[0], &(struct lease_message){.kind = LEASE_SIGNAL, .code = 18}), 0);
	assert_int_equal(lease_send(fds[1], &(struct lease_message){.kind = LEASE_ENDED, .code = 5 << 8}), 0);
	close(fds[1]);
	assert_int_equal(lease_receive(fds[0], &m), 0);
	assert_int_equal(m.kind, LEASE_ENDED);
	assert_int_equal(m.code, 5 << 8);
	assert_int_equal(lease_receive(fds[0], &m), -EPIPE);
	close(fds[0]);
}

static void test_killed_keeper_is_noticed(void **state)
{
	(void)state;
	int fds[2];
	struct lease_message m = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(lease_send(fds[0], &(struct lease_message){.kind = LEASE_SIGNAL, .code = 18}), 0);
	close(fds[1]);
	assert_int_equal(lease_receive(fds[0], &m), -EPIPE);
	assert_int_equal(lease_send(fds[0], &m), -EPIPE);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_message_of_a_keeper_that_exits_with_an_unread_one_is_received),
		cmocka_unit_test(test_killed_keeper_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
