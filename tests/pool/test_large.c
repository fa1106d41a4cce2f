/* SPDX-License-Identifier: MIT */
/* Large payloads, submitted faster than they are processed: memory and descriptors stay bounded. */
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/process.h"
#include "support/sanitizer.h"

#define MIB ((size_t)1 << 20)

/* Writes its number at both ends of the task. */
static void fill(char *data, size_t size, uint64_t number)
{
	memcpy(data, &number, sizeof(number));
	memcpy(data + size - sizeof(number), &number, sizeof(number));
}

/* Takes a moment, so that the generator is faster; answers with the size of an intact task. */
static int slow_size(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	const char *end = (const char *)task->data + task->size - sizeof(uint64_t);
	if (memcmp(task->data, end, sizeof(uint64_t)) != 0)
		return gd_worker_fail(w, -EBADMSG, "not whole");
	if (task->size >= MIB / 16)
		poll(NULL, 0, 2);
	uint64_t size = task->size;
	return gd_worker_result(w, &size, sizeof(size));
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = slow_size};

struct feed {
	char *buffer;
	size_t (*size)(uint64_t number);
	size_t most_kib;
	uint64_t most_under_way;
};

static int give_large(void *context, struct gd_feed *to)
{
	struct recorder *rec = context;
	struct feed *feed = rec->extra;
	struct gd_stats stats;
	gd_dispatcher_stats(rec->dispatcher, &stats, sizeof(stats));
	uint64_t under_way = stats.queued + stats.running;
	size_t kib = process_status_kib("VmRSS");
	feed->most_under_way = under_way > feed->most_under_way ? under_way : feed->most_under_way;
	feed->most_kib = kib > feed->most_kib ? kib : feed->most_kib;
	if (rec->given == rec->tasks)
		return 0;
	uint64_t n = rec->given++;
	size_t size = feed->size(n);
	if (n % 2) { /* in place, and copied */
		char *data = gd_feed_reserve(to, size, NULL, NULL);
		if (!data)
			return -ENOMEM;
		fill(data, size, n);
		return 1;
	}
	fill(feed->buffer, size, n);
	int r = gd_feed_emit(to, feed->buffer, size, NULL, NULL);
	return r < 0 ? r : 1;
}

static void run(struct recorder *rec, struct feed *feed, size_t (*size)(uint64_t number), bool is_inline)
{
	feed->size = size;
	feed->buffer = calloc(1, 4 * MIB);
	assert_non_null(feed->buffer);
	rec->extra = feed;
	rec->run.generator = give_large;
	rec->run.inline_generator = is_inline;
	rec->calls.on_task_start = NULL;
	int r = recorder_run(rec, &ops);
	free(feed->buffer);
	if (r < 0)
		fail_msg("%s", rec->err.message);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], rec->tasks);
	for (size_t i = 0; i < rec->tasks; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->result, size(n->task));
	}
}

/* ---- Memory ------------------------------------------------------------- */

static size_t one_mib(uint64_t number)
{
	(void)number;
	return MIB;
}

static void assert_memory_bounded(struct recorder *rec, bool is_inline)
{
	struct feed feed = {0};
	size_t before = process_status_kib("VmRSS");
	rec->tasks = 300;
	run(rec, &feed, one_mib, is_inline);
	/* One in each worker, one waiting for each worker, and one being submitted. */
	assert_in_range(feed.most_under_way, 1, 8);
	if (!SANITIZER_ADDRESS) /* which keeps freed memory */
		assert_in_range(feed.most_kib - before, 0, 64 * 1024);
}

static void test_memory_stays_bounded_with_a_fast_generator(void **state)
{
	assert_memory_bounded(*state, false);
}

static void test_memory_stays_bounded_with_a_fast_inline_generator(void **state)
{
	assert_memory_bounded(*state, true);
}

/* ---- Sizes -------------------------------------------------------------- */

/* From 64 bytes to 3 MiB, repeatedly: after a small one, many more seem to fit. */
static size_t growing(uint64_t number)
{
	size_t step = number % 7;
	return 64 + step * step * step * (3 * MIB / 216);
}

static void test_inline_generator_may_give_growing_tasks(void **state)
{
	struct recorder *rec = *state;
	struct feed feed = {0};
	rec->tasks = 300;
	run(rec, &feed, growing, true);
}

static void test_generator_may_give_growing_tasks(void **state)
{
	struct recorder *rec = *state;
	struct feed feed = {0};
	rec->tasks = 300;
	run(rec, &feed, growing, false);
}

/* ---- Descriptors -------------------------------------------------------- */

static size_t with_a_descriptor_each(uint64_t number)
{
	(void)number;
	return 2 * MIB + 4096;
}

static void run_with_few_descriptors(struct recorder *rec, bool is_inline)
{
	struct feed feed = {0};
	struct rlimit old;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	struct rlimit few = {.rlim_cur = 48, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	rec->tasks = 200;
	run(rec, &feed, with_a_descriptor_each, is_inline);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void test_many_large_tasks_work_with_few_descriptors(void **state)
{
	run_with_few_descriptors(*state, false);
}

static void test_many_large_tasks_of_an_inline_generator_work_with_few_descriptors(void **state)
{
	run_with_few_descriptors(*state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_memory_stays_bounded_with_a_fast_generator),
		recorder_test(test_memory_stays_bounded_with_a_fast_inline_generator),
		recorder_test(test_inline_generator_may_give_growing_tasks),
		recorder_test(test_generator_may_give_growing_tasks),
		recorder_test(test_many_large_tasks_work_with_few_descriptors),
		recorder_test(test_many_large_tasks_of_an_inline_generator_work_with_few_descriptors),
	};
	return cmocka_run_group_tests_name("pool large", tests, NULL, NULL);
}
