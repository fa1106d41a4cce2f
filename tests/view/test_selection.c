/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/model/model.h"

static const int gpu_0[] = {0}, gpu_3[] = {3, 1};

static int setup(void **state)
{
	struct view_model *m = view_model_create(0);
	struct view_attempt ended = {.start_ms = 500,
		.end_ms = 900,
		.duration_ms = 400,
		.peak_mem_mb = 100,
		.energy_j = -1,
		.gpus = gpu_0,
		.num_gpus = 1};
	struct view_attempt runs = {.start_ms = 700,
		.end_ms = -1,
		.duration_ms = -1,
		.peak_mem_mb = -1,
		.energy_j = -1,
		.gpus = gpu_3,
		.num_gpus = 2};
	struct view_attempt late = {.start_ms = 800,
		.end_ms = 810,
		.duration_ms = 10,
		.peak_mem_mb = 900,
		.energy_j = -1,
		.gpus = gpu_0,
		.num_gpus = 1};
	const struct view_job jobs[] = {
		{.id = 1,
			.name = "zeta",
			.command = "train.py --lr 3",
			.state = VIEW_JOB_COMPLETED,
			.mem_mb = -1,
			.attempts = &ended,
			.num_attempts = 1},
		{.id = 2,
			.name = "Alpha",
			.command = "Eval.py",
			.state = VIEW_JOB_RUNNING,
			.mem_mb = 5000,
			.attempts = &runs,
			.num_attempts = 1},
		{.id = 3,
			.name = "beta",
			.command = "train.py größe",
			.state = VIEW_JOB_FAILED,
			.mem_mb = -1,
			.reason = "Out Of Memory",
			.attempts = &late,
			.num_attempts = 1},
		{.id = 12, .command = "gamma.sh", .state = VIEW_JOB_PENDING, .mem_mb = -1},
		{.id = 23, .command = "train.py --gpu 3", .state = VIEW_JOB_HELD, .mem_mb = -1},
	};
	for (size_t i = 0; i < 5; i++)
		if (view_put_job(m, &jobs[i]) < 0)
			return -1;
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	view_model_destroy(*state);
	return 0;
}

static void selects(struct view_model *m, struct view_selection s, const char *expected)
{
	const struct view_job *jobs[16];
	char ids[128] = "";
	s.now_ms = 1000;
	size_t count = view_select(m, &s, jobs, 16);
	for (size_t i = 0; i < count; i++)
		sprintf(ids + strlen(ids), "%s%lu", i ? " " : "", (unsigned long)jobs[i]->id);
	assert_string_equal(ids, expected);
}

static void test_selection_by_state_keeps_jobs_in_those_states(void **state)
{
	selects(*state, (struct view_selection){0}, "1 2 3 12 23");
	selects(*state, (struct view_selection){.states = 1u << VIEW_JOB_FAILED | 1u << VIEW_JOB_PENDING}, "3 12");
	selects(*state, (struct view_selection){.states = 1u << VIEW_JOB_CANCELLED}, "");
}

static void test_text_matches_id_name_command_and_reason_without_case(void **state)
{
	selects(*state, (struct view_selection){.text = "TRAIN"}, "1 3 23");
	selects(*state, (struct view_selection){.text = "  train   lr "}, "1");
	selects(*state, (struct view_selection){.text = "out memory"}, "3");
	selects(*state, (struct view_selection){.text = "eval"}, "2");
	selects(*state, (struct view_selection){.text = "größe"}, "3");
	selects(*state, (struct view_selection){.text = "alph"}, "2");
	selects(*state, (struct view_selection){.text = "2"}, "2 12 23");
	selects(*state, (struct view_selection){.text = "nothing"}, "");
	selects(*state, (struct view_selection){.text = ""}, "1 2 3 12 23");
	selects(*state, (struct view_selection){.text = "train", .states = 1u << VIEW_JOB_HELD}, "23");
}

static void test_text_gpu_n_matches_jobs_on_that_gpu(void **state)
{
	selects(*state, (struct view_selection){.text = "gpu 3"}, "2 23"); /* on that GPU, or has the text */
	selects(*state, (struct view_selection){.text = "GPU0"}, "1 3");
	selects(*state, (struct view_selection){.text = "gpu 1 eval"}, "2");
	selects(*state, (struct view_selection){.text = "gpu 7"}, "");
}

static void test_selection_is_sorted_by_each_order(void **state)
{
	selects(*state, (struct view_selection){.reverse = true}, "23 12 3 2 1");
	selects(*state, (struct view_selection){.order = VIEW_BY_STATE}, "2 12 23 3 1");
	selects(*state, (struct view_selection){.order = VIEW_BY_START}, "1 2 3 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_DURATION}, "3 2 1 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_GPU}, "1 3 2 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_MEMORY}, "1 3 2 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_NAME}, "2 3 12 23 1");
}

static void test_unknown_values_come_last_even_in_reverse(void **state)
{
	selects(*state, (struct view_selection){.order = VIEW_BY_START, .reverse = true}, "3 2 1 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_MEMORY, .reverse = true}, "2 3 1 12 23");
	selects(*state, (struct view_selection){.order = VIEW_BY_NAME, .reverse = true}, "1 23 12 3 2");
}

static void test_selection_counts_all_matches_and_returns_as_many_as_fit(void **state)
{
	const struct view_job *jobs[2];
	assert_int_equal(view_select(*state, &(struct view_selection){.reverse = true}, jobs, 2), 5);
	assert_int_equal(jobs[0]->id, 23);
	assert_int_equal(jobs[1]->id, 12);
	assert_int_equal(view_select(*state, &(struct view_selection){.text = "train"}, NULL, 0), 3);
}

/* Similar names, compared with a plain comparison. */
static void test_names_with_common_prefixes_are_sorted_like_strcasecmp(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(0);
	unsigned seed = 3;
	for (uint64_t id = 0; id < 3000; id++) {
		char name[64];
		snprintf(name, sizeof(name), "Experiment-%s-%d", id % 2 ? "long-name-in-common" : "LONG-NAME",
			rand_r(&seed) % 900);
		assert_int_equal(view_put_job(m, &(struct view_job){.id = id, .name = name, .command = "x"}), 0);
	}
	static const struct view_job *jobs[3000];
	assert_int_equal(view_select(m, &(struct view_selection){.order = VIEW_BY_NAME}, jobs, 3000), 3000);
	for (size_t i = 1; i < 3000; i++) {
		int c = strcasecmp(jobs[i - 1]->name, jobs[i]->name);
		assert_true(c < 0 || (c == 0 && jobs[i - 1]->id < jobs[i]->id));
	}
	view_model_destroy(m);
}

static void test_selection_of_an_empty_model_is_empty(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(0);
	const struct view_job *jobs[1];
	assert_int_equal(view_select(m, &(struct view_selection){.order = VIEW_BY_NAME, .text = "a"}, jobs, 1), 0);
	view_model_destroy(m);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_selection_by_state_keeps_jobs_in_those_states),
		T(test_text_matches_id_name_command_and_reason_without_case),
		T(test_text_gpu_n_matches_jobs_on_that_gpu),
		T(test_selection_is_sorted_by_each_order),
		T(test_unknown_values_come_last_even_in_reverse),
		T(test_selection_counts_all_matches_and_returns_as_many_as_fit),
		T(test_names_with_common_prefixes_are_sorted_like_strcasecmp),
		T(test_selection_of_an_empty_model_is_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
