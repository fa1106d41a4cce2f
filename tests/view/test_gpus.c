/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "view/model/model.h"

static void test_rows_are_ordered_by_id_then_slot(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(0);
	const int rows[][2] = {{3, 0}, {0, 1}, {12, 0}, {0, 0}, {7, 2}, {7, 0}};
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(view_put_gpu(m, &(struct view_gpu){.id = rows[i][0], .slot = rows[i][1]}), 0);
	const int expected[][2] = {{0, 0}, {0, 1}, {3, 0}, {7, 0}, {7, 2}, {12, 0}};
	assert_int_equal(view_num_gpus(m), 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(view_gpu(m, i)->id, expected[i][0]);
		assert_int_equal(view_gpu(m, i)->slot, expected[i][1]);
	}
	assert_null(view_gpu(m, 6));
	view_model_destroy(m);
}

static void test_gpu_put_again_replaces_the_earlier_one(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(0);
	char task[] = "train.sh";
	struct view_gpu g = {.id = 1, .name = "H100", .task = task, .status = VIEW_GPU_PROCESSING};
	assert_int_equal(view_put_gpu(m, &g), 0);
	task[0] = 'X';
	assert_string_equal(view_gpu(m, 0)->task, "train.sh");
	uint64_t version = view_version(m);
	g.task = "train.sh";
	assert_int_equal(view_put_gpu(m, &g), 0);
	assert_int_equal(view_version(m), version);
	g.status = VIEW_GPU_ERROR;
	g.task = NULL;
	g.error = "fell off the bus";
	assert_int_equal(view_put_gpu(m, &g), 0);
	assert_true(view_version(m) > version);
	assert_int_equal(view_num_gpus(m), 1);
	assert_null(view_gpu(m, 0)->task);
	assert_string_equal(view_gpu(m, 0)->error, "fell off the bus");
	assert_string_equal(view_gpu_status_name(view_gpu(m, 0)->status), "error");
	view_model_destroy(m);
}

static void test_history_keeps_the_newest(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(5);
	struct view_sample samples[10];
	assert_int_equal(view_history(m, 0, samples, 10), 0);
	for (int t = 0; t < 13; t++) {
		assert_int_equal(view_put_sample(m, 4, &(struct view_sample){.time_ms = t}), 0);
		assert_int_equal(view_put_sample(m, 0, &(struct view_sample){.time_ms = 100 + t}), 0);
	}
	assert_int_equal(view_history(m, 4, samples, 10), 5);
	assert_int_equal(samples[0].time_ms, 8);
	assert_int_equal(samples[4].time_ms, 12);
	assert_int_equal(view_history(m, 0, samples, 2), 2);
	assert_int_equal(samples[0].time_ms, 111);
	assert_int_equal(samples[1].time_ms, 112);
	assert_int_equal(view_history(m, 3, samples, 10), 0);
	view_model_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_ordered_by_id_then_slot),
		cmocka_unit_test(test_gpu_put_again_replaces_the_earlier_one),
		cmocka_unit_test(test_history_keeps_the_newest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
