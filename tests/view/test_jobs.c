/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "model_rig.h"
#include "view/model/model.h"

static void put(struct view_model *m, uint64_t id, enum view_job_state s)
{
	char command[64];
	snprintf(command, sizeof(command), "train --seed %lu", (unsigned long)id);
	assert_int_equal(view_put_job(m, &(struct view_job){.id = id, .command = command, .state = s}), 0);
}

static void test_everything_of_a_job_is_copied(void **state)
{
	struct view_model *m = *state;
	int gpus[] = {2, 3};
	uint64_t after[] = {5, 6, 7};
	char words[] = "exit 1", path[] = "logs/9.log", name[] = "nightly", node[] = "n1";
	struct view_attempt attempts[] = {
		{.start_ms = 1, .end_ms = 2, .reason = words, .log_file = path, .gpus = gpus, .num_gpus = 1},
		{.start_ms = 3, .end_ms = -1, .gpus = gpus, .num_gpus = 2, .pid = 77},
	};
	struct view_job job = {.id = 9,
		.name = name,
		.command = "a",
		.cwd = "/b",
		.reason = "c",
		.node = node,
		.state = VIEW_JOB_RUNNING,
		.after = after,
		.num_after = 3,
		.attempts = attempts,
		.num_attempts = 2};
	assert_int_equal(view_put_job(m, &job), 0);
	memset(attempts, 0, sizeof(attempts));
	gpus[0] = gpus[1] = 0;
	after[2] = 0;
	words[0] = path[0] = name[0] = node[0] = 'X';

	const struct view_job *seen = view_find_job(m, 9);
	assert_string_equal(seen->name, "nightly");
	assert_string_equal(seen->command, "a");
	assert_string_equal(seen->cwd, "/b");
	assert_string_equal(seen->reason, "c");
	assert_string_equal(seen->node, "n1");
	assert_int_equal(seen->after[2], 7);
	assert_string_equal(seen->attempts[0].reason, "exit 1");
	assert_string_equal(seen->attempts[0].log_file, "logs/9.log");
	const struct view_attempt *last = view_job_last(seen);
	assert_int_equal(last->gpus[1], 3);
	assert_int_equal(last->pid, 77);
	assert_null(last->reason);
	assert_null(view_find_job(m, 8));
}

static void test_jobs_are_ordered_by_id_however_they_were_put(void **state)
{
	struct view_model *m = *state;
	const uint64_t ids[] = {10, 20, 30, 5, 25, 1, 40, 35};
	for (size_t i = 0; i < 8; i++)
		put(m, ids[i], VIEW_JOB_PENDING);
	const uint64_t sorted[] = {1, 5, 10, 20, 25, 30, 35, 40};
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(view_job(m, i)->id, sorted[i]);
	assert_null(view_job(m, 8));
}

static void test_counts_follow_the_states(void **state)
{
	struct view_model *m = *state;
	for (uint64_t id = 1; id <= 10; id++)
		put(m, id, VIEW_JOB_PENDING);
	put(m, 3, VIEW_JOB_RUNNING);
	put(m, 4, VIEW_JOB_FAILED);
	assert_int_equal(view_job_count(m, VIEW_JOB_PENDING), 8);
	assert_int_equal(view_job_count(m, VIEW_JOB_RUNNING), 1);
	assert_int_equal(view_job_count(m, VIEW_JOB_FAILED), 1);
	assert_int_equal(view_num_jobs(m), 10);
}

static void test_only_a_change_of_a_job_raises_the_versions(void **state)
{
	struct view_model *m = *state;
	for (uint64_t id = 1; id <= 100; id++)
		put(m, id, VIEW_JOB_PENDING);
	uint64_t version = view_jobs_version(m);
	assert_int_equal(version, view_find_job(m, 100)->version);
	put(m, 50, VIEW_JOB_PENDING); /* unchanged */
	assert_int_equal(view_put_work(m, &(struct view_work){.title = "gpuq", .total = 100}), 0);
	assert_true(view_version(m) > version);
	assert_int_equal(view_jobs_version(m), version);
	put(m, 70, VIEW_JOB_RUNNING);
	put(m, 30, VIEW_JOB_RUNNING);
	put(m, 70, VIEW_JOB_COMPLETED);
	assert_true(view_find_job(m, 50)->version < version);
	assert_true(view_find_job(m, 30)->version > version);
	assert_true(view_find_job(m, 70)->version > view_find_job(m, 30)->version);
	assert_int_equal(view_jobs_version(m), view_find_job(m, 70)->version);
}

static void test_forgetting_jobs_is_a_change_of_jobs(void **state)
{
	struct view_model *m = *state;
	for (uint64_t id = 1; id <= 10; id++)
		put(m, id, VIEW_JOB_PENDING);
	uint64_t version = view_jobs_version(m);
	view_forget_jobs(m);
	assert_int_equal(view_num_jobs(m), 0);
	assert_int_equal(view_job_count(m, VIEW_JOB_PENDING), 0);
	assert_null(view_find_job(m, 1));
	assert_true(view_jobs_version(m) > version);
	put(m, 3, VIEW_JOB_PENDING);
	assert_int_equal(view_job(m, 0)->id, 3);
	assert_true(view_job(m, 0)->version > version);
}

/* Compared with the simplest model: an array of versions. */
static void test_any_sequence_of_changes(void **state)
{
	struct view_model *m = *state;
	enum { IDS = 700 };
	uint64_t versions[IDS] = {0};
	uint64_t last = 0;
	unsigned seed = 7;
	for (int step = 0; step < 40000; step++) {
		uint64_t id = (uint64_t)rand_r(&seed) % IDS;
		if (rand_r(&seed) % 2000) {
			put(m, id, (enum view_job_state)(rand_r(&seed) % VIEW_JOB_STATES));
			versions[id] = view_find_job(m, id)->version;
			last = versions[id] > last ? versions[id] : last;
		} else {
			view_forget_jobs(m);
			memset(versions, 0, sizeof(versions));
			last = view_version(m);
		}
		if (step % 97)
			continue;
		size_t n = 0;
		for (uint64_t i = 0; i < IDS; i++) {
			const struct view_job *job = view_find_job(m, i);
			assert_int_equal(job != NULL, versions[i] != 0);
			if (!job)
				continue;
			assert_ptr_equal(view_job(m, n), job);
			assert_int_equal(job->version, versions[i]);
			n++;
		}
		assert_int_equal(view_num_jobs(m), n);
		assert_int_equal(view_jobs_version(m), last);
	}
}

/* A year of a runner: the same jobs change repeatedly. */
static void test_changes_do_not_pile_up(void **state)
{
	struct view_model *m = *state;
	for (uint64_t id = 0; id < 100; id++)
		put(m, id, VIEW_JOB_PENDING);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 100000; i++)
		put(m, (uint64_t)i % 100, i / 100 % 2 ? VIEW_JOB_PENDING : VIEW_JOB_RUNNING);
	assert_in_range(mallinfo2().uordblks, 0, before + 64 * 1024);
}

static void test_state_name_parses_to_the_same_state(void **state)
{
	(void)state;
	for (int i = 0; i < VIEW_JOB_STATES; i++)
		assert_int_equal(view_job_state_parse(view_job_state_name((enum view_job_state)i)), i);
	assert_int_equal(view_job_state_parse("done"), -1);
}

static void put_in(struct view_model *m, unsigned queue, uint64_t number, enum view_job_state s)
{
	struct view_job job = {
		.id = view_job_id(queue, number), .queue = queue == 7 ? "seven" : "eight", .command = "x", .state = s};
	assert_int_equal(view_put_job(m, &job), 0);
}

static void test_jobs_of_two_queues_with_the_same_number_are_two_jobs(void **state)
{
	struct view_model *m = *state;
	put_in(m, 8, 1, VIEW_JOB_RUNNING);
	put_in(m, 7, 1, VIEW_JOB_PENDING);
	put_in(m, 7, 999999999, VIEW_JOB_PENDING);
	assert_int_equal(view_num_jobs(m), 3);
	assert_string_equal(view_find_job(m, view_job_id(7, 1))->queue, "seven");
	assert_string_equal(view_find_job(m, view_job_id(8, 1))->queue, "eight");
	assert_int_equal(view_id_number(view_job(m, 1)->id), 999999999);
	assert_int_equal(view_id_queue(view_job(m, 1)->id), 7);
	assert_int_equal(view_max_number(m), 999999999);
	/* A job of the only queue has its number as its id. */
	assert_int_equal(view_job_id(0, 12), 12);
	assert_true(view_job_id(VIEW_MAX_QUEUE, UINT32_MAX) < UINT64_C(1) << 53);
}

static void test_a_queue_is_forgotten_without_the_others(void **state)
{
	struct view_model *m = *state;
	for (uint64_t number = 1; number <= 200; number++) {
		put_in(m, 8, number, VIEW_JOB_RUNNING);
		put_in(m, 7, number, VIEW_JOB_PENDING);
	}
	uint64_t version = view_jobs_version(m);
	view_forget_queue(m, 7);
	assert_true(view_jobs_version(m) > version);
	assert_int_equal(view_num_jobs(m), 200);
	assert_int_equal(view_job_count(m, VIEW_JOB_PENDING), 0);
	assert_int_equal(view_job_count(m, VIEW_JOB_RUNNING), 200);
	for (uint64_t number = 1; number <= 200; number++) {
		assert_null(view_find_job(m, view_job_id(7, number)));
		assert_ptr_equal(view_find_job(m, view_job_id(8, number)), view_job(m, number - 1));
	}
	/* Places and order are also right for the next changes. */
	put_in(m, 8, 3, VIEW_JOB_FAILED);
	put_in(m, 7, 1, VIEW_JOB_PENDING);
	assert_int_equal(view_job(m, 0)->id, view_job_id(7, 1));
	assert_int_equal(view_job(m, 3)->state, VIEW_JOB_FAILED);
	view_forget_queue(m, 8);
	view_forget_queue(m, 7);
	view_forget_queue(m, 7);
	assert_int_equal(view_num_jobs(m), 0);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Puts jobs with these ids, and returns how long that took. */
static uint64_t time_jobs(const uint64_t *ids, size_t count)
{
	struct view_model *m = view_model_create(1);
	uint64_t begin = cpu_ns();
	for (size_t i = 0; i < count; i++)
		assert_int_equal(view_put_job(m, &(struct view_job){.id = ids[i], .state = VIEW_JOB_PENDING}), 0);
	uint64_t took = cpu_ns() - begin;
	view_model_destroy(m);
	return took;
}

/* Ids of a foreign journal: the same bits of their products with a number that is often used in hash tables. */
static void test_chosen_ids_do_not_collide(void **state)
{
	(void)state;
	enum { COUNT = 30000 };
	static uint64_t chosen[COUNT], usual[COUNT];
	size_t n = 0;
	for (uint64_t id = 1; n < COUNT; id++)
		if ((id * UINT64_C(0x9E3779B97F4A7C15) >> 32 & 0xffff) < 24)
			chosen[n++] = id;
	for (size_t i = 0; i < COUNT; i++)
		usual[i] = i + 1;
	/* Colliding ids take 100 times as long. */
	uint64_t expected = time_jobs(usual, COUNT);
	assert_in_range(time_jobs(chosen, COUNT), 0, 10 * expected + 100 * NS_PER_MS);
}

int main(void)
{
#define T(f) model_rig_test(f)
	const struct CMUnitTest tests[] = {
		T(test_everything_of_a_job_is_copied),
		T(test_jobs_are_ordered_by_id_however_they_were_put),
		T(test_counts_follow_the_states),
		T(test_only_a_change_of_a_job_raises_the_versions),
		T(test_forgetting_jobs_is_a_change_of_jobs),
		T(test_any_sequence_of_changes),
		T(test_changes_do_not_pile_up),
		T(test_state_name_parses_to_the_same_state),
		T(test_jobs_of_two_queues_with_the_same_number_are_two_jobs),
		T(test_a_queue_is_forgotten_without_the_others),
		T(test_chosen_ids_do_not_collide),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
