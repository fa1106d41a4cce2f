/* SPDX-License-Identifier: MIT */
/* The event loop: deadlines that are moved, and output that is deferred to the end of a round. */
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "support/scratch.h"

static int calls;

static void count(void *context, uint32_t events)
{
	(void)context, (void)events;
	calls++;
}

static struct loop *open_loop(void)
{
	struct loop *l;
	assert_int_equal(loop_create(&l), 0);
	calls = 0;
	return l;
}

static void run_until(struct loop *l, uint64_t until_ns)
{
	for (uint64_t now; (now = clock_now_ns()) < until_ns;)
		assert_int_equal(loop_round(l, clock_ms_until(until_ns, now)), 0);
}

static void test_deadline_that_moves_is_called_once_and_not_early(void **state)
{
	(void)state;
	struct loop *l = open_loop();
	struct loop_source *timer;
	uint64_t now = clock_now_ns();
	assert_int_equal(loop_add_timer(l, count, NULL, &timer), 0);
	for (uint64_t i = 1; i <= 10; i++)
		assert_int_equal(loop_set_deadline(timer, now + i * 10 * NS_PER_MS), 0);
	while (calls == 0) {
		assert_int_equal(loop_round(l, -1), 0);
		assert_true(calls == 0 || clock_now_ns() >= now + 100 * NS_PER_MS);
	}
	run_until(l, clock_now_ns() + 20 * NS_PER_MS);
	assert_int_equal(calls, 1);
	/* An earlier one replaces a later one. */
	assert_int_equal(loop_set_deadline(timer, clock_now_ns() + 3600 * NS_PER_S), 0);
	assert_int_equal(loop_set_deadline(timer, clock_now_ns() + NS_PER_MS), 0);
	while (calls == 1)
		assert_int_equal(loop_round(l, -1), 0);
	loop_destroy(l);
}

static void test_removed_deadline_is_not_called_and_can_be_set_again(void **state)
{
	(void)state;
	struct loop *l = open_loop();
	struct loop_source *timer;
	assert_int_equal(loop_add_timer(l, count, NULL, &timer), 0);
	assert_int_equal(loop_set_deadline(timer, clock_now_ns() + NS_PER_MS), 0);
	assert_int_equal(loop_set_deadline(timer, 0), 0);
	run_until(l, clock_now_ns() + 20 * NS_PER_MS);
	assert_int_equal(calls, 0);
	assert_int_equal(loop_set_deadline(timer, clock_now_ns() + NS_PER_MS), 0);
	while (calls == 0)
		assert_int_equal(loop_round(l, -1), 0);
	loop_destroy(l);
}

static void test_advanced_deadline_is_never_postponed(void **state)
{
	(void)state;
	struct loop *l = open_loop();
	struct loop_source *timer;
	uint64_t first = clock_now_ns() + 20 * NS_PER_MS, limit = clock_now_ns() + 60 * NS_PER_S;
	assert_int_equal(loop_add_timer(l, count, NULL, &timer), 0);
	assert_int_equal(loop_advance_deadline(timer, first), 0);
	/* Each round asks for a later call, like a caller that fails again and again. */
	while (calls == 0) {
		assert_int_equal(loop_advance_deadline(timer, clock_now_ns() + 1000 * NS_PER_MS), 0);
		assert_int_equal(loop_round(l, 5), 0);
		assert_true(clock_now_ns() < limit);
	}
	assert_true(clock_now_ns() >= first);
	/* An earlier deadline replaces a later one. */
	assert_int_equal(loop_set_deadline(timer, clock_now_ns() + 3600 * NS_PER_S), 0);
	assert_int_equal(loop_advance_deadline(timer, clock_now_ns() + NS_PER_MS), 0);
	while (calls == 1)
		assert_int_equal(loop_round(l, -1), 0);
	loop_destroy(l);
}

static void remove_other(void *context, uint32_t events)
{
	struct loop_source **other = context;
	(void)events;
	calls++;
	loop_remove(*other);
}

static void test_deferred_function_is_called_once_before_the_wait(void **state)
{
	(void)state;
	struct loop *l = open_loop();
	int pipes[3][2];
	struct loop_source *sources[3];
	for (int i = 0; i < 3; i++)
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
	assert_int_equal(loop_add(l, pipes[0][0], EPOLLIN, count, NULL, &sources[0]), 0);
	assert_int_equal(loop_add(l, pipes[1][0], EPOLLIN, remove_other, &sources[2], &sources[1]), 0);
	assert_int_equal(loop_add(l, pipes[2][0], EPOLLIN, count, NULL, &sources[2]), 0);
	loop_defer(sources[0]);
	loop_defer(sources[0]);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 1);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 1);
	/* The second one removes the third, which is the last in the list. */
	for (int i = 0; i < 3; i++)
		loop_defer(sources[i]);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 3);
	loop_defer(sources[0]);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 4);
	loop_destroy(l);
	for (int i = 0; i < 3; i++)
		close(pipes[i][0]), close(pipes[i][1]);
}

static void test_events_change(void **state)
{
	(void)state;
	struct loop *l = open_loop();
	int fds[2];
	struct loop_source *s;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(loop_add(l, fds[0], EPOLLIN, count, NULL, &s), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(loop_change(s, 0), 0);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(loop_change(s, EPOLLIN), 0);
	assert_int_equal(loop_round(l, 0), 0);
	assert_int_equal(calls, 1);
	loop_destroy(l);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadline_that_moves_is_called_once_and_not_early),
		cmocka_unit_test(test_removed_deadline_is_not_called_and_can_be_set_again),
		cmocka_unit_test(test_advanced_deadline_is_never_postponed),
		cmocka_unit_test(test_deferred_function_is_called_once_before_the_wait),
		cmocka_unit_test(test_events_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
