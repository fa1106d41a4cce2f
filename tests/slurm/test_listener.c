/* SPDX-License-Identifier: MIT */
/* Both ends of real connections, in one loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "slurm/address_file.h"
#include "slurm/listener.h"
#include "support/scratch.h"
#include "support/wait.h"

static const uint8_t ours[MAC_KEY_SIZE] = "the secret of this queue", theirs[MAC_KEY_SIZE] = "the secret of another";

struct side {
	struct link *link;
	int opened, frames, closed, reason;
	struct frame last;
};

struct net {
	struct loop *loop;
	int dir_fd;
	struct listener *listener;
	struct side boss;
};

static void on_opened(void *context, struct link *l)
{
	struct side *s = context;
	s->opened++;
	s->link = l;
}

static void on_frame(void *context, struct link *l, const struct frame *f)
{
	struct side *s = context;
	assert_ptr_equal(s->link, l);
	s->frames++;
	s->last = *f;
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct side *s = context;
	s->closed++;
	s->reason = reason;
	link_destroy(l);
	s->link = NULL;
}

static const struct link_ops ops = {.opened = on_opened, .frame = on_frame, .closed = on_closed};

static void open_net(struct net *n)
{
	struct gd_error err = {0};
	struct listener_options o = {
		.towards = "127.0.0.1", .secret = ours, .epoch = 7, .ops = &ops, .context = &n->boss};
	if (!n->loop) {
		assert_int_equal(loop_create(&n->loop), 0);
		n->dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	o.loop = n->loop;
	o.dir_fd = n->dir_fd;
	assert_int_equal(listener_open(&o, &n->listener, &err), 0);
}

static void close_net(struct net *n)
{
	listener_close(n->listener);
	link_destroy(n->boss.link);
	loop_destroy(n->loop);
	close(n->dir_fd);
}

static void connect_pilot(struct net *n, struct side *s, const uint8_t *secret)
{
	assert_int_equal(link_connect_to(n->loop, n->dir_fd, "slurm.address", secret, 4711, &ops, s, &s->link), 0);
}

#define run_until(n, condition)                                                                                        \
	for (uint64_t deadline_ = wait_deadline_ns(); !(condition);) {                                                 \
		wait_check(deadline_, #condition);                                                                     \
		assert_true(loop_round((n)->loop, 1000) >= 0);                                                         \
	}

static void test_frames_go_both_ways(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	open_net(&n);
	connect_pilot(&n, &pilot, ours);
	struct frame f = {.kind = FRAME_HEARTBEAT, .epoch = 7, .session = 1, .heartbeat = {.number = 5}};
	assert_int_equal(link_send(pilot.link, &f), -ENOTCONN);
	run_until(&n, pilot.opened && n.boss.opened);
	assert_int_equal(link_epoch(pilot.link), 7);
	assert_int_equal(link_slurm_job(n.boss.link), 4711);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(link_send(pilot.link, &f), 0);
	run_until(&n, n.boss.frames == 1000);
	assert_int_equal(n.boss.last.heartbeat.number, 5);
	f = (struct frame){.kind = FRAME_RENEW, .epoch = 7, .session = 1, .renew = {5, 900000}};
	assert_int_equal(link_send(n.boss.link, &f), 0);
	run_until(&n, pilot.frames == 1);
	assert_int_equal(pilot.last.renew.lease_ms, 900000);
	/* Links that were handed over do not need the listener. */
	listener_close(n.listener);
	n.listener = NULL;
	link_destroy(pilot.link);
	run_until(&n, n.boss.closed);
	assert_int_equal(n.boss.reason, 0);
	close_net(&n);
}

/* A grant may have megabytes: more than the socket takes at once. */
static void test_long_frame_arrives(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	size_t size = (size_t)20 << 20;
	char *order = calloc(1, size);
	open_net(&n);
	connect_pilot(&n, &pilot, ours);
	run_until(&n, pilot.opened && n.boss.opened);
	struct frame f = {.kind = FRAME_GRANT, .grant = {{1, 1}, NULL, 0, order, size}};
	assert_int_equal(link_send(n.boss.link, &f), 0);
	run_until(&n, pilot.frames == 1);
	assert_int_equal(pilot.last.grant.order_size, size);
	free(order);
	link_destroy(pilot.link);
	close_net(&n);
}

static void test_pilot_with_another_secret_is_not_let_in(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	open_net(&n);
	connect_pilot(&n, &pilot, theirs);
	run_until(&n, pilot.closed);
	assert_true(pilot.opened == 0 && n.boss.opened == 0);
	close_net(&n);
}

static void test_strangers_do_not_keep_pilots_out(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	int fds[2 * LISTENER_STRANGERS];
	open_net(&n);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++) {
		assert_int_equal(link_connect("127.0.0.1", listener_port(n.listener), &fds[i]), 0);
		assert_true(loop_round(n.loop, 0) >= 0);
	}
	connect_pilot(&n, &pilot, ours);
	run_until(&n, n.boss.opened);
	/* The first ones were closed, the last ones wait for their timeout. */
	char byte;
	assert_int_equal(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0);
	assert_int_equal(recv(fds[2 * LISTENER_STRANGERS - 1], &byte, 1, MSG_DONTWAIT), -1);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++)
		close(fds[i]);
	link_destroy(pilot.link);
	close_net(&n);
}

static void send_slowly(struct net *n, int fd, const void *data, size_t size)
{
	run_until(n, send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
}

/* A pilot's side of a tunnel, and its opening, for the current listener. */
static void make_opening(struct net *n, struct tunnel *t)
{
	struct address_file a;
	uint8_t key[MAC_KEY_SIZE];
	assert_int_equal(address_file_read(n->dir_fd, "slurm.address", &a), 0);
	address_file_key(&a, ours, key);
	assert_int_equal(tunnel_init(t, TUNNEL_PILOT, key, 4711), 0);
}

/* A connection whose two sides are not in the same loop: the test sends its messages one by one. */
static void open_slowly(struct net *n, int *ret_fd, struct tunnel *t)
{
	char answer[TUNNEL_OPENING_MAX];
	ssize_t size;
	assert_int_equal(link_connect("127.0.0.1", listener_port(n->listener), ret_fd), 0);
	make_opening(n, t);
	send_slowly(n, *ret_fd, t->out.data, t->out.length);
	text_clear(&t->out);
	run_until(n, (size = recv(*ret_fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0);
	assert_int_equal(tunnel_receive(t, answer, (size_t)size), 0);
	assert_int_equal(t->stage, TUNNEL_OPEN);
}

/* Sends these bytes, and checks that the listener closes the connection without an answer. */
static void check_refused(struct net *n, const void *data, size_t size)
{
	char byte;
	ssize_t got;
	int fd;
	assert_int_equal(link_connect("127.0.0.1", listener_port(n->listener), &fd), 0);
	send_slowly(n, fd, data, size);
	run_until(n, (got = recv(fd, &byte, 1, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
	assert_true(got <= 0);
	close(fd);
}

static void test_opening_is_taken_once(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	struct tunnel t;
	char opening[TUNNEL_OPENING_MAX], answer[TUNNEL_OPENING_MAX];
	ssize_t got;
	int fd;
	open_net(&n);
	make_opening(&n, &t);
	size_t size = t.out.length;
	memcpy(opening, t.out.data, size);
	/* A changed opening does not use up the nonce of the genuine one. */
	opening[size - 1] ^= 1;
	check_refused(&n, opening, size);
	opening[size - 1] ^= 1;
	assert_int_equal(link_connect("127.0.0.1", listener_port(n.listener), &fd), 0);
	send_slowly(&n, fd, opening, size);
	run_until(&n, (got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0);
	check_refused(&n, opening, size);
	/* Even when its connection has ended, and after other openings. */
	close(fd);
	connect_pilot(&n, &pilot, ours);
	run_until(&n, n.boss.opened);
	check_refused(&n, opening, size);
	tunnel_finish(&t);
	link_destroy(pilot.link);
	close_net(&n);
}

/* Connections that repeat a recorded opening are closed. */
static void test_repeated_openings_do_not_displace_a_pilot(void **state)
{
	(void)state;
	struct net n = {0};
	struct tunnel t, recorded;
	int fds[2 * LISTENER_STRANGERS], fd, first;
	char byte;
	open_net(&n);
	make_opening(&n, &recorded);
	assert_int_equal(link_connect("127.0.0.1", listener_port(n.listener), &first), 0);
	send_slowly(&n, first, recorded.out.data, recorded.out.length);
	open_slowly(&n, &fd, &t);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++) {
		assert_int_equal(link_connect("127.0.0.1", listener_port(n.listener), &fds[i]), 0);
		send_slowly(&n, fds[i], recorded.out.data, recorded.out.length);
		/* Until the listener has closed the connection; an answer would mean that it has taken the opening. */
		run_until(&n, recv(fds[i], &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN);
	}
	send_slowly(&n, fd, t.out.data, t.out.length);
	run_until(&n, n.boss.opened);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++)
		close(fds[i]);
	close(first);
	close(fd);
	tunnel_finish(&recorded);
	tunnel_finish(&t);
	close_net(&n);
}

/* It may have been sent to another process, which listened on the port in the meantime. */
static void test_opening_for_an_earlier_listener_is_refused(void **state)
{
	(void)state;
	struct net n = {0};
	struct side pilot = {0};
	struct tunnel t;
	open_net(&n);
	make_opening(&n, &t);
	listener_close(n.listener);
	open_net(&n);
	check_refused(&n, t.out.data, t.out.length);
	/* The pilot reads the file again. */
	connect_pilot(&n, &pilot, ours);
	run_until(&n, n.boss.opened);
	tunnel_finish(&t);
	link_destroy(pilot.link);
	close_net(&n);
}

/* The round trip of an honest pilot may take longer than many strangers need to connect. */
static void test_strangers_do_not_displace_a_pilot_that_has_opened(void **state)
{
	(void)state;
	struct net n = {0};
	struct tunnel t;
	int fds[2 * LISTENER_STRANGERS], fd;
	open_net(&n);
	open_slowly(&n, &fd, &t);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++) {
		assert_int_equal(link_connect("127.0.0.1", listener_port(n.listener), &fds[i]), 0);
		assert_true(loop_round(n.loop, 0) >= 0);
	}
	assert_true(send(fd, t.out.data, t.out.length, MSG_NOSIGNAL) == (ssize_t)t.out.length);
	run_until(&n, n.boss.opened);
	for (size_t i = 0; i < 2 * LISTENER_STRANGERS; i++)
		close(fds[i]);
	close(fd);
	tunnel_finish(&t);
	close_net(&n);
}

static void test_pilot_that_does_not_greet_is_disconnected(void **state)
{
	(void)state;
	struct net n = {0};
	struct tunnel t;
	int fd;
	open_net(&n);
	open_slowly(&n, &fd, &t);
	assert_true(send(fd, t.out.data, t.out.length, MSG_NOSIGNAL) == (ssize_t)t.out.length);
	run_until(&n, n.boss.opened);
	run_until(&n, n.boss.closed);
	assert_int_equal(n.boss.reason, -ETIMEDOUT);
	close(fd);
	tunnel_finish(&t);
	close_net(&n);
}

static void test_address_is_one_and_the_port_is_used_again(void **state)
{
	(void)state;
	struct net n = {0};
	struct address_file one, two;
	open_net(&n);
	uint16_t port = listener_port(n.listener);
	assert_int_equal(address_file_read(n.dir_fd, "slurm.address", &one), 0);
	assert_string_equal(one.host, "127.0.0.1");
	assert_int_equal(one.port, port);
	listener_close(n.listener);
	open_net(&n);
	assert_int_equal(listener_port(n.listener), port);
	assert_int_equal(address_file_read(n.dir_fd, "slurm.address", &two), 0);
	assert_memory_not_equal(one.challenge, two.challenge, sizeof(one.challenge));
	/* A second listener takes another port. */
	struct listener *first = n.listener;
	open_net(&n);
	assert_int_not_equal(listener_port(n.listener), port);
	listener_close(first);
	close_net(&n);
}

static void test_address_of_another_version_or_a_damaged_one_is_refused(void **state)
{
	(void)state;
#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{"node1 4000 " DIGITS "f\n", 0},
		{"node1 4000\n", -EPROTONOSUPPORT},
		{"node1 4000 " DIGITS "\n", -EBADMSG},
		{"node1 4000 " DIGITS "g\n", -EBADMSG},
		{"node1 4000 " DIGITS "ff\n", -EBADMSG},
		{"node1 4000 " DIGITS "f f\n", -EBADMSG},
		{"node1 0 " DIGITS "f\n", -EBADMSG},
		{"node1 65536 " DIGITS "f\n", -EBADMSG},
		{"node1\n", -EBADMSG},
		{"", -EBADMSG},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address_file a = {.port = 1};
		scratch_write_text("slurm.address", cases[i].text);
		assert_int_equal(address_file_read(AT_FDCWD, "slurm.address", &a), cases[i].result);
		assert_int_equal(a.port, cases[i].result == 0 ? 4000 : 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_frames_go_both_ways),
		scratch_test(test_long_frame_arrives),
		scratch_test(test_pilot_with_another_secret_is_not_let_in),
		scratch_test(test_strangers_do_not_keep_pilots_out),
		scratch_test(test_strangers_do_not_displace_a_pilot_that_has_opened),
		scratch_test(test_opening_is_taken_once),
		scratch_test(test_repeated_openings_do_not_displace_a_pilot),
		scratch_test(test_opening_for_an_earlier_listener_is_refused),
		scratch_test(test_pilot_that_does_not_greet_is_disconnected),
		scratch_test(test_address_is_one_and_the_port_is_used_again),
		scratch_test(test_address_of_another_version_or_a_damaged_one_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
