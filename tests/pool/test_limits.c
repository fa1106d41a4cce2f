/* SPDX-License-Identifier: MIT */
/* No processes, no memory, no descriptors left; and very many workers. */
#include "pool_rig.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cgroup.h"
#include "support/board.h"
#include "support/host.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/wait.h"

#define BIG ((size_t)5 << 20) /* sent as a separate memfd */

enum {
	ANSWER,
	EAT,        /* allocates memory forever */
	BIG_RESULT, /* a result whose first bytes are the answer */
	MEET,       /* waits for `argument` workers */
};

static struct cgroup group;

static void eat(void)
{
	check_true(cgroup_add(&group, getpid()));
	for (size_t size = (size_t)1 << 20;; size *= 2) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			_exit(95);
		memset(p, 1, size);
	}
}

static void meet(int how_many)
{
	atomic_fetch_add(&board->go, 1);
	for (uint64_t end = wait_deadline_ns(); atomic_load(&board->go) < how_many && clock_now_ns() < end;)
		poll(NULL, 0, 1);
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	atomic_fetch_add(&board->begun, 1);
	if (job.what == EAT)
		eat();
	if (job.what == MEET)
		meet((int)job.argument);
	if (job.what != BIG_RESULT)
		return pool_rig_reply(w, &job);
	void *room = gd_worker_result_reserve(w, BIG);
	return room ? 0 : gd_worker_fail(w, -ENOMEM, "no room for the result");
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};

/* A task that only shows its size: the rig expects no answer for it. */
static int submit_big(struct pool_rig *rig)
{
	static char data[BIG];
	struct rig_job job = {.number = rig->submitted};
	memcpy(data, &job, sizeof(job));
	int r = gd_pool_submit(rig->pool, data, BIG, NULL, NOWAIT, NULL);
	if (r >= 0)
		rig->submitted++;
	return r;
}

/* Submits up to `count` tasks: without a worker or memory, none is accepted. */
static void submit_some(struct pool_rig *rig, int count)
{
	for (int i = 0; i < count; i++) {
		struct rig_job job = {.number = rig->submitted};
		int r = gd_pool_submit(rig->pool, &job, sizeof(job), NULL, NOWAIT, NULL);
		check_true(r == 0 || r == -ENODEV || r == -ENOMEM);
		rig->submitted += r == 0;
	}
}

static void set_limit(int resource, rlim_t soft)
{
	struct rlimit limit;
	check_true(getrlimit(resource, &limit) == 0);
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	check_true(setrlimit(resource, &limit) == 0);
}

/* ---- Processes ---------------------------------------------------------- */

static uid_t fresh_uid(void)
{
	return (uid_t)(700000 + getpid());
}

/* Becomes a user who may have this many processes, including this one. */
static void become_poor(rlim_t processes)
{
	uid_t uid = fresh_uid();
	const struct rlimit limit = {.rlim_cur = processes, .rlim_max = processes};
	check_true(setgroups(0, NULL) == 0 && setgid((gid_t)uid) == 0);
	check_true(setrlimit(RLIMIT_NPROC, &limit) == 0);
	check_true(setuid(uid) == 0);
}

static int host_without_warden(void)
{
	struct pool_rig *rig = pool_rig_new();
	struct gd_error err = {0};
	int fds = process_count_fds();
	become_poor(1);
	rig->options.worker = &ops;
	check_equal(gd_pool_open(&rig->options, &rig->calls, &rig->pool, &err), -EAGAIN);
	check_true(strstr(err.message, "warden") != NULL);
	check_equal(process_count_fds(), fds);
	return 0;
}

static int host_without_workers(void)
{
	struct pool_rig *rig = pool_rig_new();
	become_poor(2);
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	check_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 20);
	check_equal(rig->setup_failures, 2);
	check_equal(rig->setup_failure.event.code, -EAGAIN);
	check_equal(pool_rig_close(rig), 0);
	return 0;
}

static int host_with_one_of_two(void)
{
	struct pool_rig *rig = pool_rig_new();
	become_poor(3);
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 200);
	pool_rig_drain(rig);
	check_equal(rig->successes, 200);
	check_equal(pool_rig_close(rig), 0);
	check_equal(rig->setup_failures, 1);
	return 0;
}

/* The limit is lowered while they work: workers that die then are not replaced. */
static int host_with_no_successors(void)
{
	struct pool_rig *rig = pool_rig_new();
	become_poor(4);
	pool_rig_open(rig, &ops);
	const pid_t pids[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
	const struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
	check_true(prlimit(process_parent(pids[0]), RLIMIT_NPROC, &none, NULL) == 0);
	process_kill(pids[0]);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	check_equal(rig->setup_failure.event.slot, 0);
	check_equal(rig->setup_failure.event.code, -EAGAIN);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	check_equal(rig->successes, 100);
	process_kill(pids[1]);
	pool_rig_submit_many(rig, 10);
	pool_rig_drain(rig);
	check_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 10);
	check_equal(gd_pool_poll(rig->pool, 0, 0), -ENODEV);
	check_equal(pool_rig_close(rig), 0);
	return 0;
}

static void test_fork_that_fails_costs_its_slot_alone(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can switch to a user with its own limit\n");
		skip();
	}
	host_run(host_without_warden);
	host_run(host_without_workers);
	host_run(host_with_one_of_two);
	host_run(host_with_no_successors);
}

/* ---- Descriptors -------------------------------------------------------- */

#define MANY 8

static bool none_starting(struct pool_rig *rig)
{
	for (int slot = 0; slot < MANY; slot++)
		if (pool_rig_worker(rig, slot).state == GD_WORKER_STATE_STARTING)
			return false;
	return true;
}

/* At every limit from zero to enough: an error or a working pool, and nothing left behind. */
static int host_with_few_fds(void)
{
	struct rlimit before;
	check_true(getrlimit(RLIMIT_NOFILE, &before) == 0);
	int fds = process_count_fds();
	bool refused = false, partly = false, wholly = false;
	for (rlim_t limit = 3; limit < 60 && !wholly; limit++) {
		struct pool_rig *rig = pool_rig_new();
		struct gd_error err = {0};
		rig->options.worker = &ops;
		rig->options.gpus = "sim:8";
		pool_rig_reserve(rig, 1024);
		set_limit(RLIMIT_NOFILE, limit);
		int r = gd_pool_open(&rig->options, &rig->calls, &rig->pool, &err);
		if (r < 0) {
			check_equal(r, -EMFILE);
			check_true(err.message[0] != '\0');
			refused = true;
		} else {
			submit_some(rig, 10);
			pool_rig_await(rig, none_starting);
			pool_rig_drain(rig);
			wholly = rig->setup_failures == 0;
			partly |= rig->setup_failures > 0 && rig->setup_failures < MANY;
			submit_some(rig, 10);
			pool_rig_drain(rig);
			check_true(rig->setup_failures == MANY || rig->errors == 0);
			check_equal(pool_rig_close(rig), 0);
			check_equal(rig->by_failure[GD_FAILURE_NO_WORKER], rig->errors);
		}
		set_limit(RLIMIT_NOFILE, before.rlim_cur);
		check_equal(process_count_fds(), fds);
		check_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
		pool_rig_free(rig);
	}
	check_true(refused && partly && wholly);
	return 0;
}

static void test_open_at_any_limit_of_descriptors_works_or_fails_cleanly(void **state)
{
	(void)state;
	host_run(host_with_few_fds);
}

static int host_that_runs_out_of_fds(void)
{
	struct pool_rig *rig = pool_rig_new();
	pool_rig_open(rig, &ops);
	const pid_t pids[2] = {pool_rig_pid(rig, 0, 0), pool_rig_pid(rig, 1, 0)};
	/* Open descriptors stay open; nothing more can be opened. */
	set_limit(RLIMIT_NOFILE, 0);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	check_equal(rig->successes, 100);
	check_equal(submit_big(rig), -EMFILE);

	pool_rig_submit(rig, BIG_RESULT, 0);
	pool_rig_drain(rig);
	check_equal(rig->by_failure[GD_FAILURE_NOT_CARRIED], 1);
	check_equal(rig->failure.event.code, -EMFILE);

	process_kill(pids[0]);
	pool_rig_await(rig, pool_rig_has_setup_failure);
	check_equal(rig->setup_failure.event.code, -EMFILE);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	check_equal(rig->successes, 200);

	process_kill(pids[1]);
	pool_rig_submit_many(rig, 10);
	pool_rig_drain(rig);
	check_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 10);
	check_equal(pool_rig_close(rig), 0);
	return 0;
}

static void test_pool_without_free_descriptors_finishes_what_needs_none(void **state)
{
	(void)state;
	host_run(host_that_runs_out_of_fds);
}

static bool has_lost_a_worker(struct pool_rig *rig)
{
	return pool_rig_worker(rig, 0).restarts == 1;
}

/* Between two attempts to start a worker, whose predecessor had tasks. */
static int host_without_fds_and_warden(void)
{
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pid_t worker = pool_rig_pid(rig, 0, 0);
	pid_t warden = process_parent(worker);
	pool_rig_submit_many(rig, 100);
	pool_rig_drain(rig);
	set_limit(RLIMIT_NOFILE, 0);
	process_kill(worker);
	pool_rig_await(rig, has_lost_a_worker);
	check_equal(pool_rig_worker(rig, 0).has_task, false);
	submit_some(rig, 10);
	siginfo_t end;
	check_equal(kill(warden, SIGKILL), 0);
	check_equal(waitid(P_PID, (id_t)warden, &end, WEXITED | WNOWAIT), 0);
	gd_pool_poll(rig->pool, 0, 0); /* checks the warden before it tries again */
	pool_rig_drain(rig);
	check_equal(rig->successes, 100);
	check_equal(rig->by_failure[GD_FAILURE_NO_WORKER], 10);
	check_equal(gd_pool_poll(rig->pool, 0, 0), -ENODEV);
	/* The time of the next attempt comes. */
	struct pollfd readable = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	set_limit(RLIMIT_NOFILE, 64); /* poll() does nothing without one */
	poll(&readable, 1, 2000);     /* times out if it came before the warden was killed */
	check_equal(gd_pool_poll(rig->pool, 0, 0), -ENODEV);
	check_equal(pool_rig_close(rig), 0);
	return 0;
}

static void test_warden_killed_while_no_worker_can_be_started_ends_no_task_twice(void **state)
{
	(void)state;
	host_run(host_without_fds_and_warden);
}

static int setup_without_fds(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	set_limit(RLIMIT_NOFILE, 0);
	return 0;
}

static void test_worker_without_descriptors_fails_what_needs_one(void **state)
{
	static const struct gd_worker_ops poor = {
		.size = sizeof(struct gd_worker_ops), .setup = setup_without_fds, .process = process};
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &poor);
	for (int i = 0; i < 3; i++) {
		pool_rig_submit_many(rig, 10);
		assert_int_equal(submit_big(rig), 0);
		pool_rig_drain(rig);
		assert_int_equal(rig->failure.event.failure, GD_FAILURE_ERROR);
		assert_int_equal(rig->failure.event.code, -EMFILE);
		pool_rig_submit(rig, BIG_RESULT, 0);
		pool_rig_drain(rig);
	}
	assert_int_equal(rig->successes, 30);
	assert_int_equal(rig->errors, 6);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

/* ---- Memory ------------------------------------------------------------- */

static int leave_group(void **state)
{
	if (group.path[0])
		cgroup_remove(&group);
	group.path[0] = '\0';
	return pool_rig_teardown(state);
}

static void test_worker_killed_for_memory_is_reported_as_such(void **state)
{
	struct pool_rig *rig = *state;
	if (!cgroup_create("memory", &group)) {
		group.path[0] = '\0';
		skip();
	}
	assert_true(cgroup_write(&group, "memory.limit_in_bytes", "64M"));
	rig->options.gpus = "sim:2";
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 20);
	pool_rig_submit(rig, EAT, 0);
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 40);
	assert_int_equal(rig->by_failure[GD_FAILURE_OUT_OF_MEMORY], 1);
	assert_int_equal(rig->failure.event.id, 20);
	assert_int_equal(rig->failure.event.signal, SIGKILL);
	check_contains(rig->failure.message, "memory");
	pool_rig_submit_many(rig, 20);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 1);
}

static size_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	check_true(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int setup_without_memory(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	set_limit(RLIMIT_AS, address_space() + (1 << 20));
	return 0;
}

static void test_worker_without_memory_fails_what_needs_some(void **state)
{
	static const struct gd_worker_ops poor = {
		.size = sizeof(struct gd_worker_ops), .setup = setup_without_memory, .process = process};
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &poor);
	for (int i = 0; i < 3; i++) {
		pool_rig_submit_many(rig, 10);
		pool_rig_submit(rig, BIG_RESULT, 0);
		pool_rig_drain(rig);
		assert_int_equal(rig->failure.event.failure, GD_FAILURE_ERROR);
		assert_int_equal(rig->failure.event.code, -ENOMEM);
		assert_string_equal(rig->failure.message, "no room for the result");
		assert_int_equal(submit_big(rig), 0);
		pool_rig_drain(rig);
		assert_int_equal(rig->failure.event.code, -ENOMEM);
	}
	assert_int_equal(rig->successes, 30);
	assert_int_equal(rig->errors, 6);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 0);
}

/* At limits from nothing to enough: an error or a pool; every accepted task has its end. */
static int host_with_little_memory(void)
{
	bool refused = false, opened = false;
	for (size_t more = 0; more < (size_t)80 << 20; more += more < 4 << 20 ? 256 << 10 : 2 << 20) {
		struct pool_rig *rig = pool_rig_new();
		struct gd_error err = {0};
		rig->options.worker = &ops;
		pool_rig_reserve(rig, 1024);
		int fds = process_count_fds();
		set_limit(RLIMIT_AS, address_space() + more);
		int r = gd_pool_open(&rig->options, &rig->calls, &rig->pool, &err);
		if (r < 0) {
			check_equal(r, -ENOMEM);
			refused = true;
		} else {
			opened = true;
			submit_some(rig, 100);
			int big = submit_big(rig);
			check_true(big == 0 || big == -ENOMEM || big == -ENODEV);
			pool_rig_drain(rig);
			check_equal(pool_rig_close(rig), 0);
		}
		set_limit(RLIMIT_AS, RLIM_INFINITY);
		check_equal(process_count_fds(), fds);
		check_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
		pool_rig_free(rig);
	}
	check_true(refused && opened);
	return 0;
}

static void test_open_at_any_limit_of_memory_works_or_fails_cleanly(void **state)
{
	(void)state;
	if (SANITIZER_ADDRESS) {
		print_message("skipped: the address sanitizer needs more address space than any limit leaves\n");
		skip();
	}
	host_run(host_with_little_memory);
}

/* ---- Many workers ------------------------------------------------------- */

static void test_256_workers_all_work_at_once(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:8";
	rig->options.workers_per_gpu = 32;
	pool_rig_open(rig, &ops);
	for (int i = 0; i < 256; i++)
		pool_rig_submit(rig, MEET, 256);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 256);
	assert_int_equal(atomic_load(&board->go), 256);
	for (int slot = 0; slot < 256; slot++)
		assert_int_equal(pool_rig_worker(rig, slot).completed, 1);
	pool_rig_submit_many(rig, 20000);
	for (int slot = 0; slot < 256; slot += 16)
		kill(pool_rig_pid(rig, slot, 0), SIGKILL);
	pool_rig_drain(rig);
	assert_true(rig->errors <= 16);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.workers, 256);
	assert_int_equal(rig->setup_failures, 0);
}

#define LIMIT(test) cmocka_unit_test_setup_teardown(test, pool_rig_setup, leave_group)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMIT(test_fork_that_fails_costs_its_slot_alone),
		LIMIT(test_open_at_any_limit_of_descriptors_works_or_fails_cleanly),
		LIMIT(test_pool_without_free_descriptors_finishes_what_needs_none),
		LIMIT(test_warden_killed_while_no_worker_can_be_started_ends_no_task_twice),
		LIMIT(test_worker_without_descriptors_fails_what_needs_one),
		LIMIT(test_worker_killed_for_memory_is_reported_as_such),
		LIMIT(test_worker_without_memory_fails_what_needs_some),
		LIMIT(test_open_at_any_limit_of_memory_works_or_fails_cleanly),
		LIMIT(test_256_workers_all_work_at_once),
	};
	return cmocka_run_group_tests_name("pool limits", tests, NULL, NULL);
}
