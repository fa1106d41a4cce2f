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
	int fd;
	assert_int_equal(link_connect("127.0.0.1", listener_port(n->listener), &fd), 0);
	assert_int_equal(link_create(n->loop, fd, TUNNEL_PILOT, secret, 4711, &ops, s, &s->link), 0);
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

/* A connection whose two sides are not in the same loop: the test sends its messages one by one. */
static void open_slowly(struct net *n, int *ret_fd, struct tunnel *t)
{
	char answer[TUNNEL_OPENING_MAX];
	ssize_t size;
	assert_int_equal(link_connect("127.0.0.1", listener_port(n->listener), ret_fd), 0);
	assert_int_equal(tunnel_init(t, TUNNEL_PILOT, ours, 4711), 0);
	run_until(n, send(*ret_fd, t->out.data, t->out.length, MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
	text_clear(&t->out);
	run_until(n, (size = recv(*ret_fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0);
	assert_int_equal(tunnel_receive(t, answer, (size_t)size), 0);
	assert_int_equal(t->stage, TUNNEL_OPEN);
}

/* The round trip of an honest pilot may take longer than a crowd needs to connect. */
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
	char expected[64];
	open_net(&n);
	uint16_t port = listener_port(n.listener);
	snprintf(expected, sizeof(expected), "127.0.0.1 %u\n", port);
	assert_string_equal(scratch_read("slurm.address"), expected);
	listener_close(n.listener);
	open_net(&n);
	assert_int_equal(listener_port(n.listener), port);
	/* A second listener takes another port. */
	struct listener *first = n.listener;
	open_net(&n);
	assert_int_not_equal(listener_port(n.listener), port);
	listener_close(first);
	close_net(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_frames_go_both_ways),
		scratch_test(test_long_frame_arrives),
		scratch_test(test_pilot_with_another_secret_is_not_let_in),
		scratch_test(test_strangers_do_not_keep_pilots_out),
		scratch_test(test_strangers_do_not_displace_a_pilot_that_has_opened),
		scratch_test(test_pilot_that_does_not_greet_is_disconnected),
		scratch_test(test_address_is_one_and_the_port_is_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
