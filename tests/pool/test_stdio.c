/* SPDX-License-Identifier: MIT */
/* Descriptors and streams of the host program: closed, busy, few, or redirected. */
#include "pool_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/board.h"
#include "support/host.h"
#include "support/process.h"
#include "support/scratch.h"
#include "support/wait.h"

#define LOUD "standard output\n"

static const char *const executed_argv[] = {"/proc/self/exe", "--worker", NULL};

/* Uses its standard descriptors, whatever they are. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	printf(LOUD);
	fflush(stdout);
	fprintf(stderr, "standard error\n");
	return pool_rig_reply(w, &job);
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};

/* Waits in long polls, so that a missing wake-up is detected. */
static void ask_ten_times(struct pool_rig *rig)
{
	for (size_t i = 1; i <= 10; i++) {
		pool_rig_submit(rig, 0, 0);
		while (rig->successes < i)
			check_true(gd_pool_poll(rig->pool, WAIT_MS, 0) > 0);
	}
}

/* ---- Closed ------------------------------------------------------------- */

static struct {
	bool exec;
	enum gd_output output;
	char dir[SCRATCH_PATH_SIZE];
} plan;

static bool standard_fds_are_closed(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return false;
	return true;
}

static int host_without_stdio(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	struct pool_rig *rig = pool_rig_new();
	rig->options.output = plan.output;
	rig->options.output_dir = plan.output == GD_OUTPUT_FILES ? plan.dir : NULL;
	rig->options.worker_argv = plan.exec ? executed_argv : NULL;
	pool_rig_open(rig, plan.exec ? NULL : &ops);
	check_true(standard_fds_are_closed());
	pool_rig_pid(rig, 0, 0); /* so that each has its log */
	pool_rig_pid(rig, 1, 0);
	ask_ten_times(rig);
	check_true(standard_fds_are_closed());
	check_equal(pool_rig_close(rig), 0);
	check_true(standard_fds_are_closed());
	pool_rig_free(rig);
	return 0;
}

/* How many times the words were printed to the two logs, which are removed. */
static size_t count_in_logs(const char *words)
{
	size_t count = 0;
	for (int slot = 0; slot < 2; slot++) {
		char path[128], line[64];
		snprintf(path, sizeof(path), "%s/worker-%d.log", plan.dir, slot);
		FILE *f = fopen(path, "re");
		assert_non_null(f);
		while (fgets(line, sizeof(line), f))
			count += strcmp(line, words) == 0;
		fclose(f);
		assert_int_equal(unlink(path), 0);
	}
	return count;
}

static void try_every_output(bool exec)
{
	static const enum gd_output outputs[] = {GD_OUTPUT_INHERIT, GD_OUTPUT_SILENT, GD_OUTPUT_FILES};
	assert_int_equal(scratch_make(plan.dir), 0);
	plan.exec = exec;
	for (size_t i = 0; i < 3; i++) {
		plan.output = outputs[i];
		host_run(host_without_stdio);
	}
	assert_int_equal(count_in_logs(LOUD), 10);
	assert_int_equal(rmdir(plan.dir), 0);
}

static void test_pool_works_in_a_host_without_standard_descriptors(void **state)
{
	(void)state;
	try_every_output(false);
}

static void test_workers_are_executed_by_a_host_without_standard_descriptors(void **state)
{
	(void)state;
	try_every_output(true);
}

/* ---- Busy --------------------------------------------------------------- */

static atomic_int reader;

/* Holds the stream's lock all the time. */
static void *read_line(void *stream)
{
	char line[16];
	atomic_store(&reader, (int)syscall(SYS_gettid));
	return fgets(line, sizeof(line), stream);
}

static void start_reader(FILE *stream)
{
	pthread_t thread;
	check_equal(pthread_create(&thread, NULL, read_line, stream), 0);
	board_await(&reader, 1);
	process_await_asleep((pid_t)atomic_load(&reader));
}

/* Makes `fd` a pipe that is never written. */
static void make_silent(int fd)
{
	int ends[2];
	check_equal(pipe2(ends, O_CLOEXEC), 0);
	check_equal(dup2(ends[0], fd), fd);
	close(ends[0]);
}

static int host_that_reads(void)
{
	make_silent(STDIN_FILENO);
	start_reader(stdin);
	struct pool_rig *rig = pool_rig_new();
	rig->options.output = GD_OUTPUT_SILENT;
	rig->options.worker_argv = executed_argv;
	pool_rig_open(rig, NULL);
	ask_ten_times(rig);
	check_equal(pool_rig_close(rig), 0);
	pool_rig_free(rig);
	return 0;
}

static void test_workers_are_executed_while_a_thread_of_the_host_waits_for_input(void **state)
{
	(void)state;
	host_run(host_that_reads);
}

static int setup_that_reads(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	int ends[2];
	FILE *stream = pipe2(ends, O_CLOEXEC) < 0 ? NULL : fdopen(ends[0], "re");
	if (!stream)
		return -EIO;
	start_reader(stream);
	return 0;
}

static void test_worker_whose_thread_waits_for_input_works(void **state)
{
	static const struct gd_worker_ops reads = {
		.size = sizeof(struct gd_worker_ops), .setup = setup_that_reads, .process = process};
	struct pool_rig *rig = *state;
	rig->options.output = GD_OUTPUT_SILENT;
	pool_rig_open(rig, &reads);
	ask_ten_times(rig);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Not inherited ------------------------------------------------------ */

static void test_executed_workers_and_their_warden_keep_no_descriptor_of_the_host(void **state)
{
	struct pool_rig *rig = *state;
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	rig->options.output = GD_OUTPUT_SILENT;
	rig->options.worker_argv = executed_argv;
	pool_rig_open(rig, NULL);
	ask_ten_times(rig);
	close(ends[1]);
	/* End of file arrives when the last holder has closed it. */
	struct pollfd p = {.fd = ends[0], .events = POLLIN};
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(p.revents & POLLHUP);
	close(ends[0]);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Few ---------------------------------------------------------------- */

static bool in_open;
static size_t told_in_open, told;

static int on_setup_fail(void *context, const struct gd_event *event)
{
	(void)context;
	(void)event;
	told++;
	told_in_open += in_open;
	return 0;
}

/* Returns how many setups failed, or the error of gd_pool_open(). */
static int open_with_limit(rlim_t limit)
{
	struct rlimit old;
	check_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	struct rlimit few = {.rlim_cur = limit, .rlim_max = old.rlim_max};
	struct pool_rig *rig = pool_rig_new();
	rig->options.gpus = "sim:3";
	rig->options.worker = &ops;
	rig->calls.on_setup_fail = on_setup_fail;
	struct gd_pool *pool;
	struct gd_stats stats;
	told = 0;
	check_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	in_open = true;
	int r = gd_pool_open(&rig->options, &rig->calls, &pool, NULL);
	in_open = false;
	if (r >= 0) {
		/* Makes the callbacks that are due. */
		gd_pool_poll(pool, 0, 0);
		r = (int)told;
		check_equal(gd_pool_close(pool, &stats, sizeof(stats), NULL), 0);
		check_equal(stats.setup_failures, told);
	}
	check_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	pool_rig_free(rig);
	return r;
}

static int host_with_few_descriptors(void)
{
	int next = fcntl(0, F_DUPFD_CLOEXEC, 3);
	check_true(next >= 0);
	close(next);
	int lost_some = 0, r = -1;
	for (rlim_t limit = (rlim_t)next + 1; r != 0 && limit < (rlim_t)next + 64; limit++) {
		r = open_with_limit(limit);
		lost_some += r > 0;
	}
	check_equal(r, 0);
	check_true(lost_some > 0);
	check_equal(told_in_open, 0);
	return 0;
}

static void test_setups_that_cannot_begin_are_reported_by_poll_and_not_by_open(void **state)
{
	(void)state;
	host_run(host_with_few_descriptors);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--worker") == 0)
		return gd_worker_main(&ops);
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_pool_works_in_a_host_without_standard_descriptors),
		pool_rig_test(test_workers_are_executed_by_a_host_without_standard_descriptors),
		pool_rig_test(test_workers_are_executed_while_a_thread_of_the_host_waits_for_input),
		pool_rig_test(test_worker_whose_thread_waits_for_input_works),
		pool_rig_test(test_executed_workers_and_their_warden_keep_no_descriptor_of_the_host),
		pool_rig_test(test_setups_that_cannot_begin_are_reported_by_poll_and_not_by_open),
	};
	return cmocka_run_group_tests_name("pool stdio", tests, NULL, NULL);
}
