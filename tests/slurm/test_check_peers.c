/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "slurm/check_peers.h"
#include "support/check.h"

#define TOKEN "0123456789abcdef"

static struct sockaddr_in address;
static struct check_peers peers;
static struct check_peer report;

static int enter(void **state)
{
	(void)state;
	socklen_t size = sizeof(address);
	address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return -1;
	check_peers_init(&peers, fd, TOKEN);
	return 0;
}

static int leave(void **state)
{
	(void)state;
	check_peers_finish(&peers);
	return close(peers.listen_fd);
}

static int join(const char *text)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

static void join_and_finish(const char *text, int *ret_fd)
{
	*ret_fd = join(text);
	assert_int_equal(shutdown(*ret_fd, SHUT_WR), 0);
}

static void await_report(const char *words)
{
	int r;
	while ((r = check_peers_wait(&peers, 1000, &report)) == 0)
		;
	assert_int_equal(r, 1);
	assert_string_equal(report.report, words);
	close(report.fd);
}

/* Whether the other side has closed the connection. */
static bool is_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void test_report_does_not_wait_for_silent_connections(void **state)
{
	(void)state;
	int silent[CHECK_PEERS * 2], fd;
	for (size_t i = 0; i < CHECK_PEERS * 2; i++)
		silent[i] = join("");
	join_and_finish("token " TOKEN "\nnode a\n", &fd);
	uint64_t begin = clock_now_ns();
	await_report("token " TOKEN "\nnode a\n");
	/* If they were served one after the other, it would take longer. */
	assert_true(clock_now_ns() - begin < CHECK_PEERS * CHECK_PEERS_MS * NS_PER_MS);
	for (size_t i = 0; i < CHECK_PEERS * 2; i++)
		close(silent[i]);
	close(fd);
}

static void test_report_without_the_token_is_dropped(void **state)
{
	(void)state;
	int wrong, shorter, right;
	join_and_finish("token 0123\nnode evil\n", &wrong);
	join_and_finish("", &shorter);
	join_and_finish("token " TOKEN "\nnode a\n", &right);
	await_report("token " TOKEN "\nnode a\n");
	close(wrong);
	close(shorter);
	close(right);
}

/* The time limit applies to the connection, not to each read, even with the right token. */
static void test_slow_connection_is_closed_though_it_sends(void **state)
{
	(void)state;
	int fd = join("token " TOKEN "\n");
	uint64_t begin = clock_now_ns();
	while (!is_closed(fd)) {
		(void)send(fd, "x", 1, MSG_NOSIGNAL);
		/* The first one reads the byte, the second one waits. */
		assert_int_equal(check_peers_wait(&peers, 50, &report), 0);
		assert_int_equal(check_peers_wait(&peers, 50, &report), 0);
		assert_true(clock_now_ns() - begin < 60 * NS_PER_S);
	}
	assert_true(clock_now_ns() - begin >= CHECK_PEERS_MS * NS_PER_MS);
	close(fd);
}

static void test_report_that_does_not_fit_is_dropped(void **state)
{
	(void)state;
	static char large[NODE_CHECK_ROOM + 1] = "token " TOKEN "\n";
	memset(large + strlen(large), 'x', NODE_CHECK_ROOM - strlen(large));
	int fd = join(large);
	while (!is_closed(fd))
		assert_int_equal(check_peers_wait(&peers, 50, &report), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_report_does_not_wait_for_silent_connections, enter, leave),
		cmocka_unit_test_setup_teardown(test_report_without_the_token_is_dropped, enter, leave),
		cmocka_unit_test_setup_teardown(test_slow_connection_is_closed_though_it_sends, enter, leave),
		cmocka_unit_test_setup_teardown(test_report_that_does_not_fit_is_dropped, enter, leave),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
