/* SPDX-License-Identifier: MIT */
/* SIGINT and SIGTERM with several watches; each case in its own process. */
#include "base/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/board.h"
#include "support/check.h"
#include "support/host.h"

static void (*disposition(int number))(int)
{
	struct sigaction now;
	check_equal(sigaction(number, NULL, &now), 0);
	return now.sa_handler;
}

static void add_one(void *context)
{
	atomic_fetch_add((atomic_int *)context, 1);
}

static void say_farewell(void)
{
	atomic_fetch_add(&board->notes[15], 1);
}

#define WATCH(counter) ((struct interrupt_watch){.on_signal = add_one, .context = (counter)})

/* This signal must end the host. */
static void check_ends_by(int signal, int (*host)(void))
{
	pid_t pid = host_start(host);
	int status;
	check_equal(waitpid(pid, &status, 0), pid);
	check_true(WIFSIGNALED(status));
	check_equal(WTERMSIG(status), signal);
}

static int three_are_passed_to_all(void)
{
	atomic_int first = 0, second = 0;
	struct interrupt_watch a = WATCH(&first), b = WATCH(&second);
	interrupts_watch(&a);
	raise(SIGTERM);
	interrupts_watch(&b);
	raise(SIGINT);
	raise(SIGINT);
	check_equal(first, 3);
	check_equal(second, 2);
	check_equal(a.signal, SIGTERM);
	check_equal(b.signal, SIGINT);
	check_equal(interrupts_count(), 3);
	interrupts_unwatch(&a);
	check_true(disposition(SIGINT) != SIG_DFL);
	interrupts_unwatch(&b);
	check_true(disposition(SIGINT) == SIG_DFL && disposition(SIGTERM) == SIG_DFL);
	/* The next watch starts a new count. */
	struct interrupt_watch c = WATCH(&first);
	interrupts_watch(&c);
	for (int i = 0; i < 3; i++)
		raise(SIGINT);
	check_equal(first, 6);
	interrupts_unwatch(&c);
	return 0;
}

static void test_three_signals_are_passed_to_every_watch(void **state)
{
	(void)state;
	host_run(three_are_passed_to_all);
}

static int fourth_ends(void)
{
	atomic_int seen = 0;
	struct interrupt_watch w = WATCH(&seen);
	interrupts_set_farewell(say_farewell);
	interrupts_watch(&w);
	for (int i = 0; i < 3; i++)
		raise(SIGINT);
	check_equal(board->notes[15], 0);
	raise(SIGTERM);
	return 1;
}

static int first_ends_without_watch(void)
{
	atomic_int seen = 0;
	struct interrupt_watch w = WATCH(&seen);
	interrupts_set_farewell(say_farewell);
	interrupts_watch(&w);
	interrupts_unwatch(&w);
	check_true(disposition(SIGINT) != SIG_DFL);
	raise(SIGINT);
	return 1;
}

static void test_farewell_is_called_before_the_program_ends(void **state)
{
	(void)state;
	board_renew();
	check_ends_by(SIGTERM, fourth_ends);
	check_equal(board->notes[15], 1);
	check_ends_by(SIGINT, first_ends_without_watch);
	check_equal(board->notes[15], 2);
}

static void own_handler(int signal)
{
	(void)signal;
	atomic_fetch_add(&board->notes[14], 1);
}

static int others_dispositions_stay(void)
{
	atomic_int seen = 0;
	struct interrupt_watch w = WATCH(&seen);
	signal(SIGINT, SIG_IGN);
	interrupts_watch(&w);
	check_true(disposition(SIGINT) == SIG_IGN);
	raise(SIGINT);
	check_equal(seen, 0);
	/* A handler that the program sets during a watch gets the signal. */
	signal(SIGTERM, own_handler);
	raise(SIGTERM);
	check_equal(seen, 0);
	check_equal(board->notes[14], 1);
	interrupts_unwatch(&w);
	check_true(disposition(SIGINT) == SIG_IGN);
	check_true(disposition(SIGTERM) == own_handler);
	return 0;
}

static void test_ignored_signals_and_handlers_of_the_program_stay(void **state)
{
	(void)state;
	board_renew();
	host_run(others_dispositions_stay);
}

/* The program saved our handler while a watch was there, and sets it again later. */
static int handler_set_again(void)
{
	atomic_int seen = 0;
	struct interrupt_watch w = WATCH(&seen);
	interrupts_watch(&w);
	void (*ours)(int) = signal(SIGINT, own_handler);
	interrupts_unwatch(&w);
	signal(SIGINT, ours);
	raise(SIGINT);
	return 1;
}

static int child_is_interrupted(void)
{
	atomic_int seen = 0;
	struct interrupt_watch w = WATCH(&seen);
	interrupts_watch(&w);
	interrupts_set_farewell(say_farewell);
	pid_t child = fork();
	if (child == 0) {
		raise(SIGINT);
		_exit(1);
	}
	int status;
	check_equal(waitpid(child, &status, 0), child);
	check_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	check_equal(board->notes[15], 0);
	child = fork();
	if (child == 0) {
		/* A child may have watches of its own. */
		struct interrupt_watch own = WATCH(&seen);
		interrupts_watch(&own);
		raise(SIGINT);
		interrupts_unwatch(&own);
		_exit(seen == 1 && own.signal == SIGINT && w.signal == 0 && disposition(SIGINT) == SIG_DFL ? 0 : 1);
	}
	check_equal(waitpid(child, &status, 0), child);
	check_equal(status, 0);
	interrupts_unwatch(&w);
	interrupts_set_farewell(NULL);
	return 0;
}

static void test_without_a_watch_signals_have_their_default_action(void **state)
{
	(void)state;
	board_renew();
	check_ends_by(SIGINT, handler_set_again);
	host_run(child_is_interrupted);
}

/* ---- Threads ------------------------------------------------------------ */

#define ROUNDS 2000

/* on_signal must not be called after interrupts_unwatch(): `alive` checks this. */
struct guarded {
	atomic_bool alive;
	atomic_int late;
};

static void check_alive(void *context)
{
	struct guarded *g = context;
	if (!atomic_load(&g->alive))
		atomic_fetch_add(&g->late, 1);
}

static void *watch_often(void *argument)
{
	struct guarded *g = argument;
	for (int i = 0; i < ROUNDS; i++) {
		atomic_store(&g->alive, true);
		struct interrupt_watch w = {.on_signal = check_alive, .context = g};
		interrupts_watch(&w);
		interrupts_unwatch(&w);
		atomic_store(&g->alive, false);
	}
	return NULL;
}

static int watches_come_and_go(void)
{
	struct guarded guarded[3] = {0};
	pthread_t threads[3];
	for (int round = 0; round < 20; round++) {
		/* While a watch exists, no signal ends this process; a new watch restarts the count. */
		struct interrupt_watch w = {.on_signal = check_alive, .context = &guarded[0]};
		interrupts_watch(&w);
		for (int i = 1; i < 3; i++)
			check_equal(pthread_create(&threads[i], NULL, watch_often, &guarded[i]), 0);
		for (int i = 0; i < 3; i++)
			kill(getpid(), i % 2 ? SIGINT : SIGTERM);
		for (int i = 1; i < 3; i++)
			check_equal(pthread_join(threads[i], NULL), 0);
		interrupts_unwatch(&w);
	}
	check_equal(guarded[1].late, 0);
	check_equal(guarded[2].late, 0);
	return 0;
}

static void test_watch_is_not_called_after_its_end(void **state)
{
	(void)state;
	host_run(watches_come_and_go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_signals_are_passed_to_every_watch),
		cmocka_unit_test(test_farewell_is_called_before_the_program_ends),
		cmocka_unit_test(test_ignored_signals_and_handlers_of_the_program_stay),
		cmocka_unit_test(test_without_a_watch_signals_have_their_default_action),
		cmocka_unit_test(test_watch_is_not_called_after_its_end),
	};
	/* A shell may start us with SIGINT ignored. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
