/* SPDX-License-Identifier: MIT */
/* Large payloads, faster than they are worked off: memory and descriptors stay bounded. */
#include "lab.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

/* Writes its number at both ends of the task. */
static void fill(char *data, size_t size, uint64_t number)
{
	memcpy(data, &number, sizeof(number));
	memcpy(data + size - sizeof(number), &number, sizeof(number));
}

/* Takes a moment, so that the generator is faster; answers with the size of what has come whole. */
static int slow_size(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	const char *end = (const char *)task->data + task->size - sizeof(uint64_t);
	if (memcmp(task->data, end, sizeof(uint64_t)) != 0)
		return gd_fail(w, -EBADMSG, "not whole");
	if (task->size >= MIB / 16)
		poll(NULL, 0, 2);
	uint64_t size = task->size;
	return gd_result(w, &size, sizeof(size));
}

static const struct gd_worker_ops ops = {.process = slow_size};

struct feed {
	char *buffer;
	size_t (*size)(uint64_t number);
	size_t most_kib;
	uint64_t most_under_way;
};

static int give_large(void *context, struct gd_feed *to)
{
	struct lab *lab = context;
	struct feed *feed = lab->extra;
	struct gd_stats stats;
	gd_stats(lab->dispatcher, &stats);
	uint64_t under_way = stats.queued + stats.running;
	size_t kib = lab_status("VmRSS");
	feed->most_under_way = under_way > feed->most_under_way ? under_way : feed->most_under_way;
	feed->most_kib = kib > feed->most_kib ? kib : feed->most_kib;
	if (lab->given == lab->tasks)
		return 0;
	uint64_t n = lab->given++;
	size_t size = feed->size(n);
	if (n % 2) { /* in place, and copied */
		char *data = gd_emit_reserve(to, size, NULL);
		if (!data)
			return -ENOMEM;
		fill(data, size, n);
		return 1;
	}
	fill(feed->buffer, size, n);
	int r = gd_emit(to, feed->buffer, size, NULL);
	return r < 0 ? r : 1;
}

static void run(struct lab *lab, struct feed *feed, size_t (*size)(uint64_t number), bool is_inline)
{
	feed->size = size;
	feed->buffer = calloc(1, 4 * MIB);
	assert_non_null(feed->buffer);
	lab->extra = feed;
	lab->source.generator = give_large;
	lab->source.inline_generator = is_inline;
	lab->options.on_task_start = NULL;
	int r = lab_run(lab, &ops);
	free(feed->buffer);
	if (r < 0)
		fail_msg("%s", lab->err.message);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], lab->tasks);
	for (size_t i = 0; i < lab->tasks; i++) {
		const struct lab_note *n = lab_note(lab, LAB_SUCCESS, i);
		assert_int_equal(n->result, size(n->task));
	}
}

/* ---- Memory ------------------------------------------------------------- */

static size_t one_mib(uint64_t number)
{
	(void)number;
	return MIB;
}

static void assert_memory_bounded(struct lab *lab, bool is_inline)
{
	struct feed feed = {0};
	size_t before = lab_status("VmRSS");
	lab->tasks = 300;
	run(lab, &feed, one_mib, is_inline);
	/* One in each worker's hands, one for each that waits, and one that comes. */
	assert_in_range(feed.most_under_way, 1, 8);
	if (!LAB_ASAN) /* which keeps what was freed */
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

/* From 64 bytes to 3 MiB, again and again: after a small one, there seems to be room for many. */
static size_t growing(uint64_t number)
{
	size_t step = number % 7;
	return 64 + step * step * step * (3 * MIB / 216);
}

static void test_an_inline_generator_whose_tasks_grow(void **state)
{
	struct lab *lab = *state;
	struct feed feed = {0};
	lab->tasks = 300;
	run(lab, &feed, growing, true);
}

static void test_a_generator_whose_tasks_grow(void **state)
{
	struct lab *lab = *state;
	struct feed feed = {0};
	lab->tasks = 300;
	run(lab, &feed, growing, false);
}

/* ---- Descriptors -------------------------------------------------------- */

static size_t with_a_descriptor_each(uint64_t number)
{
	(void)number;
	return 2 * MIB + 4096;
}

static void run_with_few_descriptors(struct lab *lab, bool is_inline)
{
	struct feed feed = {0};
	struct rlimit old;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	struct rlimit few = {.rlim_cur = 48, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	lab->tasks = 200;
	run(lab, &feed, with_a_descriptor_each, is_inline);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void test_many_large_tasks_with_few_descriptors(void **state)
{
	run_with_few_descriptors(*state, false);
}

static void test_many_large_tasks_with_few_descriptors_inline(void **state)
{
	run_with_few_descriptors(*state, true);
}

#define LARGE(test) cmocka_unit_test_setup_teardown(test, lab_setup, lab_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LARGE(test_memory_stays_bounded_with_a_fast_generator),
		LARGE(test_memory_stays_bounded_with_a_fast_inline_generator),
		LARGE(test_an_inline_generator_whose_tasks_grow),
		LARGE(test_a_generator_whose_tasks_grow),
		LARGE(test_many_large_tasks_with_few_descriptors),
		LARGE(test_many_large_tasks_with_few_descriptors_inline),
	};
	return cmocka_run_group_tests_name("pool large", tests, NULL, NULL);
}
