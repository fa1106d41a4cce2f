/* SPDX-License-Identifier: MIT */
/* SIGINT and SIGTERM during gd_dispatcher_run(): real programs that get real signals. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_dispatch.h"
#include "support/board.h"
#include "support/check.h"
#include "support/host.h"
#include "support/process.h"
#include "support/wait.h"

#define TASKS   10
#define LONG_MS 60000 /* far more than a test may take */
#define WORKER(f)                                                                                                      \
	((struct gd_worker_ops){.size = sizeof(struct gd_worker_ops), .process = (f), .cleanup = note_cleanup})

/* The board's notes. */
enum { STOP_SEEN, CANCEL_SEEN, EXITS, CANCELLED, ERRORS, SUCCESSES, RUNS_OVER, HANDLED, CLEANING, GENERATOR_WAITS };

/* ---- Workers ------------------------------------------------------------ */

static int note_cleanup(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	atomic_fetch_add(&board->cleanups, 1);
	return 0;
}

static void begin(void)
{
	board_add_pid(getpid());
	atomic_fetch_add(&board->begun, 1);
}

static int until_go(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	begin();
	board_await(&board->go, 1);
	return 0;
}

static int until_cancelled(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	begin();
	wait_until(gd_worker_cancelled(w, 0));
	return -ECANCELED;
}

static int until_killed(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	begin();
	wait_until(gd_worker_cancelled(w, 0));
	atomic_fetch_add(&board->notes[CANCEL_SEEN], 1);
	process_hang();
}

static int at_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	begin();
	return 0;
}

static int cleanup_that_hangs(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	atomic_fetch_add(&board->notes[CLEANING], 1);
	process_hang();
}

/* ---- Programs ----------------------------------------------------------- */

static int count_success(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	atomic_fetch_add(&board->notes[SUCCESSES], 1);
	return 0;
}

static int count_error(void *context, const struct gd_event *e)
{
	(void)context;
	check_equal(e->failure, GD_FAILURE_CANCELLED);
	atomic_fetch_add(&board->notes[ERRORS], 1);
	return 0;
}

static int count_cancelled(void *context, const struct gd_event *e)
{
	(void)context;
	check_equal(e->failure, GD_FAILURE_CANCELLED);
	atomic_fetch_add(&board->notes[CANCELLED], 1);
	return 0;
}

static void count_exit(void *context, const struct gd_stats *stats)
{
	(void)context;
	(void)stats;
	atomic_fetch_add(&board->notes[EXITS], 1);
}

static const struct gd_callbacks calls = {.size = sizeof(calls),
	.on_success = count_success,
	.on_error = count_error,
	.on_cancelled = count_cancelled,
	.on_exit = count_exit};

struct program {
	struct gd_dispatcher *dispatcher;
	int emitted;
};

/* Some tasks; then waits for the stop. */
static int ten_then_wait(void *context, struct gd_feed *feed)
{
	struct program *p = context;
	if (p->emitted++ < TASKS)
		return gd_feed_emit(feed, "", 1, NULL, NULL);
	struct pollfd stop = {.fd = gd_dispatcher_stop_fd(p->dispatcher), .events = POLLIN};
	atomic_fetch_add(&board->notes[GENERATOR_WAITS], 1);
	while (poll(&stop, 1, LONG_MS) < 0)
		check_equal(errno, EINTR);
	atomic_fetch_add(&board->notes[STOP_SEEN], 1);
	return 0;
}

static int ten(void *context, struct gd_feed *feed)
{
	struct program *p = context;
	return p->emitted++ < TASKS ? gd_feed_emit(feed, "", 1, NULL, NULL) : 0;
}

/* Blocks in read(): nothing ever comes. */
static int ten_then_read(void *context, struct gd_feed *feed)
{
	struct program *p = context;
	if (p->emitted++ < TASKS)
		return gd_feed_emit(feed, "", 1, NULL, NULL);
	int fds[2];
	char byte;
	check_equal(pipe(fds), 0);
	check_equal(read(fds[0], &byte, 1), 1);
	return 0;
}

struct want {
	struct gd_worker_ops worker;
	int (*generator)(void *context, struct gd_feed *feed);
	int inline_generator;
	int leave_signals;
	int64_t grace_ms;
	int allow_threads;
};

static int run(const struct want *want, struct gd_stats *ret, struct gd_error *err)
{
	struct program p = {0};
	const struct gd_options o = {.size = sizeof(o),
		.gpus = "sim:2",
		.worker = &want->worker,
		.grace_ms = want->grace_ms,
		.cleanup_timeout_ms = LONG_MS,
		.allow_threads = want->allow_threads};
	const struct gd_run run = {.size = sizeof(run),
		.generator = want->generator,
		.generator_context = &p,
		.inline_generator = want->inline_generator,
		.leave_signals = want->leave_signals};
	check_equal(gd_dispatcher_create(&o, &p.dispatcher, err), 0);
	int r = gd_dispatcher_run(p.dispatcher, &run, &calls, err);
	gd_dispatcher_stats(p.dispatcher, ret, sizeof(*ret));
	gd_dispatcher_destroy(p.dispatcher);
	atomic_fetch_add(&board->notes[RUNS_OVER], 1);
	return r;
}

static void check_interrupted(const struct want *want, const char *words, uint64_t completed)
{
	struct gd_stats stats;
	struct gd_error err;
	check_equal(run(want, &stats, &err), -EINTR);
	check_equal(err.code, -EINTR);
	check_equal(strcmp(err.message, words), 0);
	check_equal(stats.completed, completed);
	check_equal(stats.cancelled, stats.submitted - completed);
	check_equal(stats.failed, 0);
	check_equal(board->notes[EXITS], 1);
}

/* ---- Signals ------------------------------------------------------------ */

static bool is_pending(pid_t pid, int number)
{
	char path[64], line[128];
	unsigned long long pending = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "ShdPnd: %llx", &pending) == 1)
			break;
	if (f)
		fclose(f);
	return pending & 1ULL << (number - 1);
}

/* A second signal of the same number would be lost while the first one is pending. */
static void interrupt(pid_t pid, int number)
{
	check_equal(kill(pid, number), 0);
	wait_until(!is_pending(pid, number) || !process_alive(pid));
}

static void check_ended_by(pid_t pid, int number)
{
	int status;
	if (!process_await_gone(pid, 3 * WAIT_MS)) {
		process_kill_child(pid);
		check_failed(__FILE__, __LINE__, "the program does not end");
	}
	check_equal(waitpid(pid, &status, 0), pid);
	check_true(WIFSIGNALED(status));
	check_equal(WTERMSIG(status), number);
}

static void check_default_again(void)
{
	struct sigaction now;
	check_equal(sigaction(SIGINT, NULL, &now), 0);
	check_true(now.sa_handler == SIG_DFL);
	check_equal(sigaction(SIGTERM, NULL, &now), 0);
	check_true(now.sa_handler == SIG_DFL);
}

/* ---- First, second, third, fourth --------------------------------------- */

static int one_sigint(void)
{
	check_interrupted(&(struct want){.worker = WORKER(until_go), .generator = ten_then_wait},
		"interrupted by SIGINT (Ctrl-C)", 2);
	check_equal(board->notes[SUCCESSES], 2);
	check_equal(board->notes[CANCELLED], TASKS - 2);
	check_equal(board->notes[ERRORS], 0);
	check_equal(board->cleanups, 2);
	check_default_again();
	return 0;
}

static void test_first_signal_finishes_what_runs_and_cleans_up(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(one_sigint);
	board_await(&board->begun, 2);
	interrupt(pid, SIGINT);
	board_await(&board->notes[STOP_SEEN], 1);
	board_await(&board->notes[CANCELLED], TASKS - 2);
	atomic_store(&board->go, 1);
	host_check(pid);
	check_equal(board->begun, 2);
}

static int two_sigints(void)
{
	check_interrupted(
		&(struct want){.worker = WORKER(until_cancelled), .generator = ten_then_wait, .grace_ms = LONG_MS},
		"interrupted by SIGINT (Ctrl-C)", 0);
	check_equal(board->notes[CANCELLED], TASKS);
	check_equal(board->cleanups, 2);
	return 0;
}

static void test_second_signal_cancels_what_runs(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(two_sigints);
	board_await(&board->begun, 2);
	interrupt(pid, SIGINT);
	board_await(&board->notes[CANCELLED], TASKS - 2);
	interrupt(pid, SIGINT);
	host_check(pid);
}

static int three_signals(void)
{
	check_interrupted(
		&(struct want){.worker = WORKER(until_killed), .generator = ten_then_wait, .grace_ms = LONG_MS},
		"interrupted by SIGTERM", 0);
	check_equal(board->notes[CANCELLED], TASKS);
	check_equal(board->cleanups, 0);
	return 0;
}

static void test_third_signal_kills_the_workers(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(three_signals);
	board_await(&board->begun, 2);
	interrupt(pid, SIGTERM);
	board_await(&board->notes[CANCELLED], TASKS - 2);
	interrupt(pid, SIGINT);
	board_await(&board->notes[CANCEL_SEEN], 2);
	interrupt(pid, SIGTERM);
	host_check(pid);
	board_check_all_gone();
}

static int reading_generator(void)
{
	struct gd_stats stats;
	struct gd_error err;
	run(&(struct want){.worker = WORKER(at_once), .generator = ten_then_read}, &stats, &err);
	return 1; /* never */
}

static void test_fourth_signal_ends_a_program_whose_generator_blocks(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(reading_generator);
	board_await(&board->notes[SUCCESSES], TASKS);
	for (int i = 0; i < 3; i++) {
		interrupt(pid, i % 2 ? SIGTERM : SIGINT);
		check_true(process_alive(pid));
	}
	/* The third one killed the workers, although the run cannot return. */
	board_check_all_gone();
	check_true(process_alive(pid));
	interrupt(pid, SIGINT);
	check_ended_by(pid, SIGINT);
}

/* ---- During setup and at the end ---------------------------------------- */

static int endless_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	begin();
	wait_until(gd_worker_cancelled(w, 0) || atomic_load(&board->go));
	return 0;
}

static int interrupted_setup(void)
{
	struct want want = {.worker = WORKER(at_once), .generator = ten_then_wait};
	want.worker.setup = endless_setup;
	check_interrupted(&want, "interrupted by SIGINT (Ctrl-C)", 0);
	return 0;
}

static void test_signal_during_setup_ends_the_run(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(interrupted_setup);
	board_await(&board->begun, 2);
	interrupt(pid, SIGINT);
	host_check(pid);
}

static int interrupted_cleanup(void)
{
	struct want want = {.worker = WORKER(until_go), .generator = ten};
	want.worker.cleanup = cleanup_that_hangs;
	check_interrupted(&want, "interrupted by SIGINT (Ctrl-C)", TASKS);
	return 0;
}

static void test_signals_reach_workers_that_clean_up(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(interrupted_cleanup);
	board_await(&board->begun, 2);
	atomic_store(&board->go, 1);
	board_await(&board->notes[CLEANING], 2);
	for (int i = 0; i < 3; i++)
		interrupt(pid, SIGINT);
	host_check(pid);
	board_check_all_gone();
}

static int inline_generator(void)
{
	struct gd_stats stats;
	struct gd_error err;
	const struct want want = {.worker = WORKER(at_once), .generator = ten_then_wait, .inline_generator = 1};
	check_equal(run(&want, &stats, &err), -EINTR);
	check_equal(board->notes[STOP_SEEN], 1);
	check_equal(board->notes[EXITS], 1);
	return 0;
}

/* It waits on the thread that would otherwise notice the signal. */
static void test_inline_generator_that_waits_is_notified(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(inline_generator);
	board_await(&board->notes[GENERATOR_WAITS], 1);
	interrupt(pid, SIGTERM);
	host_check(pid);
}

/* ---- Several runs ------------------------------------------------------- */

static void *run_in_thread(void *argument)
{
	struct gd_stats stats;
	struct gd_error err;
	check_equal(run(argument, &stats, &err), -EINTR);
	return NULL;
}

static int two_runs(void)
{
	struct want want = {.worker = WORKER(until_go), .generator = ten_then_wait, .allow_threads = 1};
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		check_equal(pthread_create(&threads[i], NULL, run_in_thread, &want), 0);
	for (int i = 0; i < 2; i++)
		check_equal(pthread_join(threads[i], NULL), 0);
	check_default_again();
	return 0;
}

static void test_one_signal_stops_all_runs(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(two_runs);
	board_await(&board->begun, 4);
	interrupt(pid, SIGINT);
	board_await(&board->notes[CANCELLED], 2 * (TASKS - 2));
	atomic_store(&board->go, 1);
	host_check(pid);
	check_equal(board->notes[EXITS], 2);
	check_equal(board->cleanups, 4);
}

static int run_after_run(void)
{
	struct gd_stats stats;
	struct gd_error err;
	const struct want want = {.worker = WORKER(until_go), .generator = ten_then_wait};
	check_equal(run(&want, &stats, &err), -EINTR);
	atomic_store(&board->go, 0);
	check_equal(run(&want, &stats, &err), -EINTR); /* its first signal counts as the first again */
	raise(SIGINT);
	return 1;
}

static void test_next_run_is_not_interrupted_by_the_last_signal(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(run_after_run);
	for (int i = 1; i <= 2; i++) {
		board_await(&board->begun, 2 * i);
		interrupt(pid, SIGINT);
		board_await(&board->notes[CANCELLED], i * (TASKS - 2));
		atomic_store(&board->go, 1);
		board_await(&board->notes[RUNS_OVER], i);
	}
	check_ended_by(pid, SIGINT); /* after the runs the default action is restored */
}

/* ---- Handlers of the program -------------------------------------------- */

static int ignoring(void)
{
	signal(SIGINT, SIG_IGN);
	check_interrupted(
		&(struct want){.worker = WORKER(until_go), .generator = ten_then_wait}, "interrupted by SIGTERM", 2);
	check_true(signal(SIGINT, SIG_DFL) == SIG_IGN);
	return 0;
}

static void test_ignored_signal_stays_ignored(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(ignoring);
	board_await(&board->begun, 2);
	for (int i = 0; i < 5; i++)
		interrupt(pid, SIGINT);
	interrupt(pid, SIGTERM);
	board_await(&board->notes[CANCELLED], TASKS - 2);
	atomic_store(&board->go, 1);
	host_check(pid);
}

static void own_handler(int number)
{
	(void)number;
	atomic_fetch_add(&board->notes[HANDLED], 1);
}

static int ten_with_own_handler(void *context, struct gd_feed *feed)
{
	struct program *p = context;
	if (p->emitted == 0)
		signal(SIGTERM, own_handler); /* during the run */
	return ten(context, feed);
}

static int handling(void)
{
	struct gd_stats stats;
	struct gd_error err;
	signal(SIGINT, own_handler);
	check_equal(
		run(&(struct want){.worker = WORKER(until_go), .generator = ten_with_own_handler}, &stats, &err), 0);
	check_equal(stats.completed, TASKS);
	check_true(signal(SIGINT, SIG_DFL) == own_handler);
	check_true(signal(SIGTERM, SIG_DFL) == own_handler);
	return 0;
}

static void test_handlers_of_the_program_stay(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(handling);
	board_await(&board->begun, 2);
	interrupt(pid, SIGINT);
	interrupt(pid, SIGTERM);
	board_await(&board->notes[HANDLED], 2);
	atomic_store(&board->go, 1);
	host_check(pid);
}

static int leaving(void)
{
	struct gd_stats stats;
	struct gd_error err;
	run(&(struct want){.worker = WORKER(until_go), .generator = ten_then_wait, .leave_signals = 1}, &stats, &err);
	return 1;
}

static void test_signals_are_left_alone_if_asked(void **state)
{
	(void)state;
	board_renew();
	pid_t pid = host_start(leaving);
	board_await(&board->begun, 2);
	interrupt(pid, SIGINT);
	check_ended_by(pid, SIGINT);
	board_check_all_gone();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_signal_finishes_what_runs_and_cleans_up),
		cmocka_unit_test(test_second_signal_cancels_what_runs),
		cmocka_unit_test(test_third_signal_kills_the_workers),
		cmocka_unit_test(test_fourth_signal_ends_a_program_whose_generator_blocks),
		cmocka_unit_test(test_signal_during_setup_ends_the_run),
		cmocka_unit_test(test_signals_reach_workers_that_clean_up),
		cmocka_unit_test(test_inline_generator_that_waits_is_notified),
		cmocka_unit_test(test_one_signal_stops_all_runs),
		cmocka_unit_test(test_next_run_is_not_interrupted_by_the_last_signal),
		cmocka_unit_test(test_ignored_signal_stays_ignored),
		cmocka_unit_test(test_handlers_of_the_program_stay),
		cmocka_unit_test(test_signals_are_left_alone_if_asked),
	};
	/* A shell may start us with SIGINT ignored. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
