/* SPDX-License-Identifier: MIT */
/* Pools on kernels, under valgrind or in sandboxes that lack system calls that we would use. */
#include "pool_rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/board.h"
#include "support/host.h"
#include "support/missing_calls.h"
#include "support/process.h"
#include "support/wait.h"

#define BIG ((size_t)5 << 20) /* sent as a separate memfd */

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .setup = pool_rig_note_setup, .process = pool_rig_reply_or_hold};
static const struct gd_worker_ops executed_ops = {.size = sizeof(struct gd_worker_ops), .process = pool_rig_just_reply};
static const char *const executed_argv[] = {"/proc/self/exe", "--worker", NULL};

static const char *missing; /* NULL: all */

static void work(struct pool_rig *rig)
{
	pool_rig_submit_many(rig, 100);
	pool_rig_submit_sized(rig, 0, BIG);
	pool_rig_drain(rig);
	pool_rig_replace_worker(rig, 0);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	check_equal(rig->successes, 201);
}

/* ---- A pool and a run --------------------------------------------------- */

static int host_with_forked_workers(void)
{
	check_equal(missing_calls_forbid(missing), 0);
	struct pool_rig *rig = pool_rig_new();
	pool_rig_open(rig, &ops);
	work(rig);
	check_equal(pool_rig_close(rig), 0);
	check_true(waitpid(-1, NULL, WNOHANG) < 0); /* the warden was waited for */
	return 0;
}

static int host_with_executed_workers(void)
{
	check_equal(missing_calls_forbid(missing), 0);
	struct pool_rig *rig = pool_rig_new();
	rig->options.worker_argv = executed_argv;
	pool_rig_open(rig, NULL);
	work(rig);
	check_equal(pool_rig_close(rig), 0);
	return 0;
}

static int generate(void *context, struct gd_feed *feed)
{
	uint64_t *given = context;
	if (*given == 100)
		return 0;
	struct rig_job job = {.number = (*given)++};
	int r = gd_feed_emit(feed, &job, sizeof(job), NULL, NULL);
	return r < 0 ? r : 1;
}

static int host_with_a_run(void)
{
	check_equal(missing_calls_forbid(missing), 0);
	uint64_t given = 0;
	const struct gd_run run = {.size = sizeof(run), .generator = generate, .generator_context = &given};
	struct pool_rig *rig = pool_rig_new();
	rig->options.worker = &executed_ops;
	pool_rig_reserve(rig, 100);
	struct gd_dispatcher *d;
	check_equal(gd_dispatcher_create(&rig->options, &d, NULL), 0);
	check_equal(gd_dispatcher_run(d, &run, &rig->calls, NULL), 0);
	gd_dispatcher_destroy(d);
	check_equal(rig->successes, 100);
	return 0;
}

static void run_with_each_missing(int (*host)(void))
{
	for (size_t i = 0; i <= num_missing_calls; i++) {
		missing = i < num_missing_calls ? missing_calls[i].name : NULL;
		board_renew();
		host_run(host);
	}
}

static void test_forked_workers_do_without_each_call(void **state)
{
	(void)state;
	run_with_each_missing(host_with_forked_workers);
}

static void test_executed_workers_do_without_each_call(void **state)
{
	(void)state;
	run_with_each_missing(host_with_executed_workers);
}

static void test_a_run_does_without_each_call(void **state)
{
	(void)state;
	run_with_each_missing(host_with_a_run);
}

/* ---- Without a descriptor for the owner --------------------------------- */

/* Its child also has the pool's descriptors, so they are not closed when the owner dies. */
static int host_with_a_child(void)
{
	check_equal(missing_calls_forbid("pidfd_open"), 0);
	struct pool_rig *rig = pool_rig_new();
	pool_rig_open(rig, &ops);
	pid_t worker = pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pid_t child = fork();
	check_true(child >= 0);
	if (child == 0)
		process_hang();
	atomic_store(&board->notes[1], child);
	board_add_pid(process_parent(worker));
	pool_rig_submit(rig, RIG_JOB_HOLD, 0);
	pool_rig_submit(rig, RIG_JOB_HOLD, 0);
	board_await(&board->begun, 2);
	atomic_store(&board->notes[0], 1);
	pool_rig_drain(rig);
	return 0;
}

static void test_owner_killed_leaves_no_process_where_processes_have_no_descriptors(void **state)
{
	(void)state;
	board_renew();
	pid_t host = host_start(host_with_a_child);
	board_await(&board->notes[0], 1);
	assert_int_equal(atomic_load(&board->num_pids), 3);
	process_kill(host);
	board_check_all_gone();
	process_kill(atomic_load(&board->notes[1]));
	assert_int_equal(waitpid(host, NULL, 0), host);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--worker") == 0)
		return gd_worker_main(&executed_ops);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forked_workers_do_without_each_call),
		cmocka_unit_test(test_executed_workers_do_without_each_call),
		cmocka_unit_test(test_a_run_does_without_each_call),
		cmocka_unit_test(test_owner_killed_leaves_no_process_where_processes_have_no_descriptors),
	};
	return cmocka_run_group_tests_name("pool missing calls", tests, NULL, NULL);
}
