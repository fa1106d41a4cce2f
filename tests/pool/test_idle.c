/* SPDX-License-Identifier: MIT */
/* Idle workers use no processor time. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder.h"
#include "support/process.h"

#define WORKERS 64

/* Clock ticks that a process has used, or 0 if it is gone. */
static unsigned long ticks_of(pid_t pid)
{
	char path[64], buf[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, sizeof(buf) - 1, f) : 0;
	if (f)
		fclose(f);
	buf[n] = '\0';
	unsigned long user = 0, system = 0;
	const char *after_name = strrchr(buf, ')');
	if (!after_name ||
		sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		return 0;
	return user + system;
}

static unsigned long ticks_of_all(const pid_t *pids, size_t num_pids)
{
	unsigned long sum = ticks_of(getpid());
	for (size_t i = 0; i < num_pids; i++)
		sum += ticks_of(pids[i]);
	return sum;
}

static void idle(struct recorder *rec)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct gd_pool *p;
	pid_t pids[WORKERS + 1];
	rec->options.worker = &ops;
	rec->options.gpus = "sim:64";
	rec->calls.on_task_start = NULL;
	assert_int_equal(gd_pool_open(&rec->options, &rec->calls, &p, &rec->err), 0);
	/* Each worker has had a task before. */
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(gd_pool_submit(p, &i, sizeof(i), NULL, NOWAIT, NULL), 0);
	for (int ready = 0; ready < WORKERS;) {
		assert_true(gd_pool_poll(p, 10, 0) >= 0);
		ready = 0;
		for (int i = 0; i < WORKERS; i++) {
			struct gd_worker_stats w;
			assert_int_equal(gd_pool_worker_stats(p, i, &w, sizeof(w)), 0);
			ready += w.state == GD_WORKER_STATE_IDLE && w.pid > 0;
			pids[i] = (pid_t)w.pid;
		}
	}
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 500);
	pids[WORKERS] = process_parent(pids[0]); /* the warden */
	assert_true(pids[WORKERS] > 1 && pids[WORKERS] != getpid());
	struct pollfd fd = {.fd = gd_pool_fd(p), .events = POLLIN};
	while (poll(&fd, 1, 100) > 0) /* until it is quiet */
		gd_pool_poll(p, 0, 0);

	unsigned long before = ticks_of_all(pids, WORKERS + 1);
	assert_int_equal(poll(&fd, 1, 1500), 0); /* no wake-up */
	unsigned long ticks = ticks_of_all(pids, WORKERS + 1) - before;
	/* A busy process would use 150 ticks, a worker that polls every millisecond about one. */
	if (ticks > (unsigned long)sysconf(_SC_CLK_TCK) / 10)
		fail_msg("%lu ticks", ticks);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void test_64_idle_workers_cost_no_processor_time(void **state)
{
	idle(*state);
}

static void test_64_idle_workers_with_a_task_timeout_cost_no_processor_time(void **state)
{
	struct recorder *rec = *state;
	rec->options.task_timeout_ms = 10000;
	idle(rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_64_idle_workers_cost_no_processor_time),
		recorder_test(test_64_idle_workers_with_a_task_timeout_cost_no_processor_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
