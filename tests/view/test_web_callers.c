/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/web/web_callers.h"

static struct web_peer user(uid_t uid)
{
	return (struct web_peer){.is_local = true, .user_known = true, .user = uid};
}

static struct web_peer remote(unsigned char last)
{
	return (struct web_peer){.address = {10, 0, 0, last}};
}

/* How many of 1,000 connections are accepted. */
static size_t connect_many(struct web_callers *c, struct web_peer peer)
{
	size_t n = 0;
	for (int i = 0; i < 1000; i++)
		n += web_callers_add(c, &peer, -1, 0) != NULL;
	return n;
}

static void remove_all(struct web_callers *c)
{
	while (c->first)
		web_callers_remove(c, c->first);
	for (int kind = 0; kind < WEB_CALLER_KINDS; kind++)
		assert_int_equal(c->count[kind] | c->streams[kind] | c->num_cut, 0);
}

static void test_other_users_and_machines_leave_room_for_the_owner(void **state)
{
	(void)state;
	struct web_callers c = {0};
	uid_t other = geteuid() + 1;
	assert_int_equal(connect_many(&c, user(other)), 32);
	assert_int_equal(connect_many(&c, user(other + 1)), 32);
	assert_int_equal(connect_many(&c, user(other + 2)), 32);
	assert_int_equal(connect_many(&c, remote(1)), 32);
	assert_int_equal(connect_many(&c, remote(2)), 32);
	assert_int_equal(connect_many(&c, user(geteuid())), 128 + WEB_CALLERS_CUT);
	assert_int_equal(c.count[WEB_CALLER_OWNER], 128);
	remove_all(&c);
}

static bool is_shut(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
	return n == 0;
}

static size_t count_user(const struct web_callers *c, uid_t uid)
{
	size_t n = 0;
	for (const struct web_caller *caller = c->first; caller; caller = caller->next)
		n += caller->peer.user == uid && !caller->cut;
	return n;
}

/* The server removes connections after they were shut down. */
static void remove_cut(struct web_callers *c)
{
	for (struct web_caller *caller = c->first, *next; caller; caller = next) {
		next = caller->next;
		if (caller->cut)
			web_callers_remove(c, caller);
	}
	assert_int_equal(c->num_cut, 0);
}

/* A user with subordinate ids is several users. */
static void test_users_with_many_connections_make_room_for_others(void **state)
{
	(void)state;
	struct web_callers c = {0};
	uid_t other = geteuid() + 1;
	for (uid_t i = 0; i < 3; i++)
		assert_int_equal(connect_many(&c, user(other + i)), 32);
	assert_int_equal(connect_many(&c, user(other + 3)), 24);
	remove_cut(&c);
	for (uid_t i = 0; i < 4; i++)
		assert_int_equal(count_user(&c, other + i), 24);
	assert_int_equal(c.count[WEB_CALLER_USER], 96);
	/* Even if each connection is of another user. */
	remove_all(&c);
	for (uid_t i = 0; i < 96; i++)
		assert_non_null(web_callers_add(
			&c, &(struct web_peer){.is_local = true, .user_known = true, .user = other + i}, -1, i));
	web_caller_end(c.first, 1000);
	assert_int_equal(connect_many(&c, user(other + 96)), 1);
	assert_int_equal(count_user(&c, other), 0);
	assert_int_equal(c.num_cut, 1);
	remove_all(&c);
}

static void test_connection_that_was_not_used_for_the_longest_time_is_closed(void **state)
{
	(void)state;
	struct web_callers c = {0};
	struct web_peer many = user(geteuid() + 1), few = user(geteuid() + 2), late = user(geteuid() + 3);
	struct web_caller *callers[32], *kept = web_callers_add(&c, &few, -1, 0);
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	for (int i = 0; i < 30; i++) {
		assert_non_null(web_callers_add(&c, &(struct web_peer){.is_local = true}, -1, 1));
		assert_non_null(web_callers_add(
			&c, &(struct web_peer){.is_local = true, .user_known = true, .user = geteuid() + 9}, -1, 1));
	}
	for (uint64_t i = 0; i < 32; i++) {
		callers[i] = web_callers_add(&c, &many, i == 3 ? ends[0] : -1, i);
		assert_non_null(callers[i]);
	}
	/* The first one is a stream; the next two have had requests. */
	assert_true(web_callers_begin_stream(&c, callers[0]));
	web_caller_begin(callers[1], 100);
	web_caller_end(callers[2], 100);
	for (int i = 0; i < 3; i++)
		assert_non_null(web_callers_add(&c, &few, -1, 200));
	assert_int_equal(c.count[WEB_CALLER_USER], 96);
	assert_non_null(web_callers_add(&c, &late, -1, 200));
	assert_true(callers[3]->cut && is_shut(ends[1]) && !kept->cut);
	/* It counts no longer, and gets nothing more. */
	size_t owners = c.count[WEB_CALLER_OWNER];
	web_callers_promote(&c, callers[3]);
	assert_int_equal(c.count[WEB_CALLER_OWNER], owners);
	assert_false(web_callers_begin_stream(&c, callers[3]));
	remove_all(&c);
	close(ends[0]);
	close(ends[1]);
}

/* The server closes connections only between two rounds of accept(). */
static void test_number_of_connections_is_limited_until_the_server_has_closed_them(void **state)
{
	(void)state;
	struct web_callers c = {0};
	size_t n = 0;
	for (uid_t i = 1; i < 1000; i++)
		n += web_callers_add(&c,
			     &(struct web_peer){.is_local = true, .user_known = true, .user = geteuid() + i}, -1,
			     i) != NULL;
	assert_int_equal(n, 96 + WEB_CALLERS_CUT);
	assert_int_equal(c.num_cut, WEB_CALLERS_CUT);
	remove_cut(&c);
	struct web_peer peer = user(geteuid() + 1);
	assert_non_null(web_callers_add(&c, &peer, -1, 0));
	remove_all(&c);
}

/* The kernel reports user 0 for a closed socket; it must not count as the owner, who may be root. */
static void test_caller_whose_user_is_not_known_is_not_the_owner(void **state)
{
	(void)state;
	struct web_callers c = {0};
	struct web_peer peer = {.is_local = true, .user = geteuid()};
	assert_int_equal(web_callers_add(&c, &peer, -1, 0)->kind, WEB_CALLER_USER);
	remove_all(&c);
}

static void test_token_makes_a_caller_the_owner(void **state)
{
	(void)state;
	struct web_callers c = {0};
	struct web_peer peer = user(geteuid() + 1);
	for (int i = 0; i < 100; i++) {
		struct web_caller *caller = web_callers_add(&c, &peer, -1, 0);
		assert_non_null(caller);
		web_callers_promote(&c, caller);
		web_callers_promote(&c, caller);
	}
	assert_int_equal(c.count[WEB_CALLER_OWNER], 100);
	assert_int_equal(connect_many(&c, peer), 32);
	assert_int_equal(connect_many(&c, user(geteuid())), 28 + WEB_CALLERS_CUT);
	remove_cut(&c);
	assert_int_equal(c.count[WEB_CALLER_OWNER], 128);
	/* The owner's connections are the newest. If all of them have the token, no more are allowed. */
	for (struct web_caller *caller = c.first; caller; caller = caller->next)
		web_callers_promote(&c, caller);
	assert_int_equal(c.count[WEB_CALLER_OWNER], 128);
	remove_all(&c);
}

/* Others can connect through the owner's ssh -L. */
static void test_connections_of_the_owner_without_the_token_make_room(void **state)
{
	(void)state;
	struct web_callers c = {0};
	struct web_peer owner = user(geteuid()), other = user(geteuid() + 1);
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	struct web_caller *kept = web_callers_add(&c, &owner, -1, 0), *stream = web_callers_add(&c, &owner, -1, 0);
	struct web_caller *oldest = web_callers_add(&c, &owner, ends[0], 0);
	web_callers_promote(&c, kept);
	assert_true(web_callers_begin_stream(&c, stream));
	for (int i = 0; i < 125; i++)
		assert_non_null(web_callers_add(&c, &owner, -1, 0));
	/* Requests without the token do not help. */
	web_caller_begin(oldest, 100);
	struct web_caller *newest = web_callers_add(&c, &owner, -1, 0);
	assert_non_null(newest);
	assert_true(oldest->cut && is_shut(ends[1]));
	remove_cut(&c);
	/* Another user who shows the token gets a place, too. */
	struct web_caller *promoted = web_callers_add(&c, &other, -1, 0);
	web_callers_promote(&c, promoted);
	assert_int_equal(promoted->kind, WEB_CALLER_OWNER);
	assert_int_equal(connect_many(&c, owner), WEB_CALLERS_CUT - 1);
	remove_cut(&c);
	assert_int_equal(c.count[WEB_CALLER_OWNER], 128);
	assert_true(!kept->cut && !stream->cut && !promoted->cut);
	/* If all others have the token, there is no room. */
	for (struct web_caller *caller = c.first; caller; caller = caller->next)
		web_callers_promote(&c, caller);
	assert_int_equal(connect_many(&c, owner), 0);
	remove_all(&c);
	close(ends[0]);
	close(ends[1]);
}

static size_t stream_all(struct web_callers *c, struct web_peer peer)
{
	size_t n = 0;
	for (struct web_caller *caller; (caller = web_callers_add(c, &peer, -1, 0));)
		n += web_callers_begin_stream(c, caller);
	return n;
}

static void test_streams_have_limits_of_their_own(void **state)
{
	(void)state;
	struct web_callers c = {0};
	assert_int_equal(stream_all(&c, user(geteuid() + 1)), 8);
	assert_int_equal(stream_all(&c, user(geteuid() + 2)), 8);
	assert_int_equal(stream_all(&c, remote(1)), 8);
	assert_int_equal(stream_all(&c, user(geteuid())), 32);
	for (struct web_caller *own = c.first; own; own = own->next)
		if (own->kind == WEB_CALLER_OWNER && !own->cut && !own->streams) {
			web_callers_promote(&c, own);
			web_callers_begin_stream(&c, own);
		}
	assert_int_equal(c.streams[WEB_CALLER_OWNER], 64);
	struct web_caller *caller = c.first;
	while (!caller->streams)
		caller = caller->next;
	web_callers_end_stream(&c, caller);
	web_callers_end_stream(&c, caller);
	assert_true(web_callers_begin_stream(&c, caller));
	remove_all(&c);
}

static void test_request_that_takes_too_long_is_cut_off(void **state)
{
	(void)state;
	struct web_callers c = {0};
	struct web_peer peer = user(geteuid());
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	struct web_caller *caller = web_callers_add(&c, &peer, ends[0], 0);
	/* A stream has no deadline; each step of a request has its own. */
	assert_true(web_callers_begin_stream(&c, caller));
	web_callers_expire(&c, 1000 * NS_PER_S);
	web_callers_end_stream(&c, caller);
	web_caller_begin(caller, 1000 * NS_PER_S);
	web_callers_expire(&c, 1059 * NS_PER_S);
	web_caller_end(caller, 1059 * NS_PER_S);
	web_callers_expire(&c, 1088 * NS_PER_S);
	assert_false(is_shut(ends[1]));
	web_callers_expire(&c, 1089 * NS_PER_S);
	assert_true(is_shut(ends[1]));
	remove_all(&c);
	close(ends[0]);
	close(ends[1]);

	/* The first request has the shortest time. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_non_null(web_callers_add(&c, &peer, ends[0], 5));
	web_callers_expire(&c, 10 * NS_PER_S + 4);
	assert_false(is_shut(ends[1]));
	web_callers_expire(&c, 10 * NS_PER_S + 5);
	assert_true(is_shut(ends[1]));
	remove_all(&c);
	close(ends[0]);
	close(ends[1]);
}

/* Connects and accepts on the loopback address of a family. False if the family is not supported here. */
static bool connect_loopback(int family, int *ret_client, int *ret_accepted)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {0};
	a.any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		a.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		a.v6.sin6_addr = in6addr_loopback;
	socklen_t size = family == AF_INET ? sizeof(a.v4) : sizeof(a.v6);
	int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, &a.any, size) < 0) {
		if (listener >= 0)
			close(listener);
		return false;
	}
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, &a.any, &size), 0);
	*ret_client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(*ret_client, &a.any, size), 0);
	*ret_accepted = accept(listener, NULL, NULL);
	assert_true(*ret_accepted >= 0);
	close(listener);
	return true;
}

static void test_user_of_a_connection_is_found(void **state)
{
	(void)state;
	static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
	for (size_t i = 0; i < 3; i++) {
		int ends[2];
		struct web_peer peer;
		if (families[i] == AF_UNIX)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		else if (!connect_loopback(families[i], &ends[0], &ends[1]))
			continue;
		assert_int_equal(web_peer_get(ends[1], &peer), 0);
		assert_true(peer.is_local);
		assert_true(peer.user_known);
		assert_int_equal(peer.user, geteuid());
		close(ends[0]);
		/* Now it has no user. */
		if (families[i] != AF_UNIX && web_peer_get(ends[1], &peer) == 0)
			assert_false(peer.user_known);
		close(ends[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_users_and_machines_leave_room_for_the_owner),
		cmocka_unit_test(test_users_with_many_connections_make_room_for_others),
		cmocka_unit_test(test_connection_that_was_not_used_for_the_longest_time_is_closed),
		cmocka_unit_test(test_number_of_connections_is_limited_until_the_server_has_closed_them),
		cmocka_unit_test(test_caller_whose_user_is_not_known_is_not_the_owner),
		cmocka_unit_test(test_token_makes_a_caller_the_owner),
		cmocka_unit_test(test_connections_of_the_owner_without_the_token_make_room),
		cmocka_unit_test(test_streams_have_limits_of_their_own),
		cmocka_unit_test(test_request_that_takes_too_long_is_cut_off),
		cmocka_unit_test(test_user_of_a_connection_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
