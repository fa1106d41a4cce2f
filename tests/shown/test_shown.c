/* SPDX-License-Identifier: MIT */
/* gd_run_shown() without a terminal; with one: tests/cli/test_shown.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu_dispatch.h"
#include "support/sanitizer.h"

/* Between the workers and us. */
struct shared {
	atomic_bool looked;  /* a task may end */
	atomic_int released; /* tasks up to this number may */
};
static struct shared *shared;

static int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	int n = *(const int *)task->data;
	(void)state;
	if (n == 3)
		return gd_fail(w, -EIO, "three");
	if (n == 5)
		while (!gd_cancelled(w))
			usleep(1000);
	return 0;
}

static int bad_setup(struct gd_worker *w, void **ret)
{
	(void)ret;
	return gd_worker_slot(w) == 1 ? gd_fail(w, -EIO, "no model") : 0;
}

static int take(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	return 0;
}

struct numbers {
	int next, end, error;
};

/* The generator does, before it ends. */
static atomic_bool *wait_for;

static int next_number(void *context, struct gd_feed *feed)
{
	struct numbers *n = context;
	while (n->next == n->end && wait_for && !atomic_load(wait_for))
		usleep(1000);
	if (n->next == n->end)
		return n->error;
	int r = gd_emit(feed, &n->next, sizeof(n->next), NULL);
	n->next++;
	return r < 0 ? r : 1;
}

static int run_with(struct gd_options *o, struct numbers *n, const struct gd_show *show, struct gd_show_stats *stats)
{
	struct gd_dispatcher *d;
	struct gd_source source = {
		.size = sizeof(source), .generator = next_number, .context = n, .total_tasks = (uint64_t)n->end};
	o->size = sizeof(*o);
	o->on_success = take;
	o->allow_threads = SANITIZER_THREAD;
	if (!o->gpus)
		o->gpus = "sim:2";
	assert_int_equal(gd_create(o, &d, NULL), 0);
	int r = gd_run_shown(d, &source, show, stats, NULL);
	gd_destroy(d);
	return r;
}

static void check_stats(const struct gd_show_stats *stats)
{
	assert_int_equal(stats->total, 10);
	assert_int_equal(stats->expected_total, 10);
	assert_int_equal(stats->completed, 8);
	assert_int_equal(stats->failed, 1);
	assert_int_equal(stats->timeouts, 1);
	assert_int_equal(stats->setup_failures, 0);
	assert_true(stats->start_ms > 0 && stats->end_ms >= stats->start_ms && stats->elapsed_ns > 0);
	assert_int_equal(stats->num_gpus, 2);
	uint64_t completed = 0, failed = 0, timeouts = 0;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(stats->gpus[i].gpu, (int)i);
		assert_string_equal(gd_gpu_status_name(stats->gpus[i].status), "finished");
		assert_false(stats->gpus[i].has_task);
		completed += stats->gpus[i].completed;
		failed += stats->gpus[i].failed;
		timeouts += stats->gpus[i].timeouts;
	}
	assert_int_equal(completed, 8);
	assert_int_equal(failed, 1);
	assert_int_equal(timeouts, 1);
}

/* What is printed meanwhile on this descriptor. */
static void run_and_read(enum gd_show_mode mode, char *printed, size_t room)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct gd_worker_ops worker = {.process = work};
	struct gd_options o = {.worker = &worker, .task_timeout_ms = 200};
	struct numbers n = {.end = 10};
	struct gd_show show = {.size = sizeof(show), .fd = fds[1], .mode = mode, .title = "ten"};
	struct gd_show_stats stats;
	assert_int_equal(run_with(&o, &n, &show, &stats), 0);
	check_stats(&stats);
	gd_show_stats_finish(&stats);
	assert_null(stats.gpus);
	close(fds[1]);
	size_t length = 0;
	ssize_t got;
	while ((got = read(fds[0], printed + length, room - 1 - length)) > 0)
		length += (size_t)got;
	printed[length] = 0;
	close(fds[0]);
}

static void test_statistics_are_returned_in_every_mode(void **state)
{
	(void)state;
	char printed[4096];
	run_and_read(GD_SHOW_OFF, printed, sizeof(printed));
	assert_string_equal(printed, "");
	run_and_read(GD_SHOW_AUTO, printed, sizeof(printed)); /* a pipe: plain */
	assert_memory_equal(printed, "ten: 100%, 10/10 done, 2 failed, 1 by timeout, ", 47);
	assert_ptr_equal(strchr(printed, '\n') + 1, printed + strlen(printed));
	run_and_read(GD_SHOW_PLAIN, printed, sizeof(printed));
	assert_memory_equal(printed, "ten: 100%, 10/10 done", 21);
}

static atomic_bool setup_failed;

static int note_setup(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	atomic_store(&setup_failed, true);
	return 0;
}

static void test_worker_whose_setup_failed_has_status_error(void **state)
{
	(void)state;
	struct gd_worker_ops worker = {.setup = bad_setup, .process = work};
	struct gd_options o = {.worker = &worker, .on_setup_fail = note_setup};
	atomic_store(&setup_failed, false);
	wait_for = &setup_failed;
	struct numbers n = {.end = 2};
	struct gd_show show = {.size = sizeof(show), .mode = GD_SHOW_OFF};
	struct gd_show_stats stats;
	assert_int_equal(run_with(&o, &n, &show, &stats), 0);
	assert_int_equal(stats.setup_failures, 1);
	assert_string_equal(gd_gpu_status_name(stats.gpus[0].status), "finished");
	assert_string_equal(gd_gpu_status_name(stats.gpus[1].status), "error");
	wait_for = NULL;
	gd_show_stats_finish(&stats);
}

static void test_shown_run_returns_the_errors_of_a_run(void **state)
{
	(void)state;
	struct gd_worker_ops worker = {.process = work};
	struct gd_options o = {.worker = &worker};
	struct numbers n = {.end = 2, .error = -EIO};
	struct gd_show show = {.size = sizeof(show), .mode = GD_SHOW_OFF};
	struct gd_show_stats stats;
	assert_int_equal(run_with(&o, &n, &show, &stats), -EIO);
	assert_int_equal(stats.completed, 2);
	gd_show_stats_finish(&stats);
	n = (struct numbers){.end = 2};
	show.size = 1;
	assert_int_equal(run_with(&o, &n, &show, &stats), -EINVAL);
	assert_null(stats.gpus);
	o.gpus = "sim:0";
	show.size = sizeof(show);
	struct gd_dispatcher *d;
	assert_int_equal(gd_create(&o, &d, NULL), 0);
	assert_int_equal(gd_run_shown(d, NULL, &show, NULL, NULL), -EINVAL);
	gd_destroy(d);
}

/* ---- What a worker is at --------------------------------------------------------------------- */

static int wait_to_be_seen(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	while (!atomic_load(&shared->looked))
		usleep(1000);
	return 0;
}

static void test_the_task_of_a_worker_can_be_read(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	struct gd_worker_ops worker = {.process = wait_to_be_seen};
	struct gd_options o = {
		.size = sizeof(o),
		.worker = &worker,
		.gpus = "sim:1",
		.allow_threads = SANITIZER_THREAD,
		.on_success = take,
	};
	struct gd_pool *p;
	char bytes[8] = "";
	uint64_t id = 99;
	assert_int_equal(gd_open(&o, &p, NULL), 0);
	assert_int_equal(gd_pool_worker_task(p, 1, bytes, 8, &id), -ENOENT);
	assert_int_equal(gd_pool_worker_task(p, 0, bytes, 8, &id), -ENODATA);
	assert_int_equal(gd_submit(p, "a long name", 11, NULL, 0, NULL), 0);
	/* Large enough for a memory of its own. */
	size_t large = (size_t)3 << 20;
	char *much = calloc(1, large);
	memcpy(much, "large", 5);
	assert_int_equal(gd_submit(p, much, large, NULL, 0, NULL), 0);
	free(much);
	int64_t size;
	while ((size = gd_pool_worker_task(p, 0, bytes, 6, &id)) == -ENODATA)
		assert_true(gd_poll(p, 10) >= 0);
	assert_int_equal(size, 11);
	assert_int_equal(id, 0);
	assert_string_equal(bytes, "a long");
	atomic_store(&shared->looked, true);
	while (gd_outstanding(p) == 2)
		assert_true(gd_poll(p, 10) >= 0);
	size = gd_pool_worker_task(p, 0, bytes, 6, &id);
	assert_true(size == (int64_t)large || size == -ENODATA); /* done already */
	while (gd_outstanding(p) > 0)
		assert_true(gd_poll(p, 10) >= 0);
	assert_int_equal(gd_pool_worker_task(p, 0, bytes, 8, &id), -ENODATA);
	assert_int_equal(gd_close(p, NULL, NULL), 0);
	munmap(shared, sizeof(*shared));
}

static int wait_for_number(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	while (atomic_load(&shared->released) < *(const int *)task->data)
		usleep(1000);
	return 0;
}

static int note_end(void *context, const struct gd_event *e)
{
	*(uint64_t *)context = e->ended_ns;
	return 0;
}

/* Not when it was queued: that may be hours before. */
static void test_a_task_is_timed_from_its_beginning(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	uint64_t first_end = 0;
	struct gd_worker_ops worker = {.process = wait_for_number};
	struct gd_options o = {
		.size = sizeof(o),
		.worker = &worker,
		.gpus = "sim:1",
		.allow_threads = SANITIZER_THREAD,
		.context = &first_end,
		.on_success = note_end,
	};
	struct gd_pool *p;
	struct gd_worker_stats w = {0};
	assert_int_equal(gd_open(&o, &p, NULL), 0);
	for (int n = 1; n <= 2; n++)
		assert_int_equal(gd_submit(p, &n, sizeof(n), NULL, 0, NULL), 0);
	atomic_store(&shared->released, 1);
	while (gd_outstanding(p) == 2)
		assert_true(gd_poll(p, 10) >= 0);
	/* As soon as the worker has said so. */
	for (int i = 0; i < 6000 && (!w.has_task || w.since_ns < first_end); i++) {
		assert_true(gd_poll(p, 10) >= 0);
		assert_int_equal(gd_pool_worker_stats(p, 0, &w), 0);
	}
	assert_int_equal(w.task_id, 1);
	assert_true(w.since_ns >= first_end);
	atomic_store(&shared->released, 2);
	while (gd_outstanding(p) > 0)
		assert_true(gd_poll(p, 10) >= 0);
	assert_int_equal(gd_close(p, NULL, NULL), 0);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statistics_are_returned_in_every_mode),
		cmocka_unit_test(test_worker_whose_setup_failed_has_status_error),
		cmocka_unit_test(test_shown_run_returns_the_errors_of_a_run),
		cmocka_unit_test(test_the_task_of_a_worker_can_be_read),
		cmocka_unit_test(test_a_task_is_timed_from_its_beginning),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
