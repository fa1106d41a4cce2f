/* SPDX-License-Identifier: MIT */
/*
 * The panel as text, compared with the pictures in golden/. With VIEW_GOLDEN_WRITE set they are written instead: review
 * them before committing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/display.h"
#include "view/panel/layout.h"

#define S  NS_PER_S
#define GB ((int64_t)1 << 30)

static const char *const tasks[] = {
	"python train.py --config configs/base.yaml --lr 3e-4 --seed 17 --out /data/experiments/2024/run_17",
	"转录 /数据/语音/第一部分.wav --model 大型 --language 中文",
	"echo café naïve e\xcc\x81\xcc\x82 \xf0\x9f\x9a\x80 done",
	"printf 'a\tb\n' \033[31m \xff \xe2\x80\xae rtl שלום",
};

static void put_work(struct view_model *m, uint64_t done, uint64_t failed, uint64_t now_ns, uint64_t end_ns)
{
	struct view_work w = {.title = "gpuq run",
		.total = 2000,
		.done = done,
		.failed = failed,
		.running = 7,
		.waiting = 2000 - 7 - done - failed,
		.start_ns = 1 * S,
		.end_ns = end_ns,
		.time_ns = now_ns};
	assert_int_equal(view_put_work(m, &w), 0);
}

static void put_gpu(struct view_model *m, int i)
{
	static const enum view_gpu_status statuses[] = {VIEW_GPU_PROCESSING, VIEW_GPU_PROCESSING, VIEW_GPU_PROCESSING,
		VIEW_GPU_PROCESSING, VIEW_GPU_INITIALIZING, VIEW_GPU_IDLE, VIEW_GPU_ERROR, VIEW_GPU_FINISHED};
	struct view_gpu g = {.id = i,
		.name = "NVIDIA H100 80GB HBM3",
		.status = statuses[i % 8],
		.since_ns = -1,
		.last_duration_ns = i == 3 ? 250000 : 58300 * (int64_t)NS_PER_MS,
		.completed = 133 + (uint64_t)i * 70,
		.failed = i == 2 ? 3 : 0,
		.memory_total_bytes = i == 6 ? -1 : 80 * GB,
		.memory_used_bytes = i == 6 ? -1 : 60 * GB + i * GB / 4,
		.utilization_percent = i == 6 ? -1 : 97 - i,
		.error = "fell off the bus (Xid 79)"};
	if (g.status == VIEW_GPU_PROCESSING) {
		g.task = tasks[i % 8];
		g.since_ns = (254 - i * 13 % 200) * (int64_t)S;
		g.num_tasks = i == 1 ? 3 : 1;
	}
	assert_int_equal(view_put_gpu(m, &g), 0);
}

static struct view_model *model_of(int gpus)
{
	struct view_model *m = view_model_create(0);
	assert_non_null(m);
	put_work(m, 0, 0, 1 * S, 0);
	put_work(m, 1063, 3, 254 * S, 0);
	for (int i = 0; i < gpus; i++)
		put_gpu(m, i);
	return m;
}

static void compare(const char *name, const struct text *t)
{
	cleanup_(text_finish) struct text path = {0};
	text_appendf(&path, "%s/%s.txt", GOLDEN_DIR, name);
	if (getenv("VIEW_GOLDEN_WRITE")) {
		FILE *f = fopen(text_string(&path), "w");
		assert_non_null(f);
		fputs(text_string(t), f);
		fclose(f);
		return;
	}
	FILE *f = fopen(text_string(&path), "r");
	assert_non_null(f);
	static char expected[64 * 1024];
	expected[fread(expected, 1, sizeof(expected) - 1, f)] = 0;
	fclose(f);
	assert_string_equal(text_string(t), expected);
}

/* Guaranteed for every picture: no line reaches the last column, and one line is left free. */
static void check_size(const struct text *t, size_t lines, size_t width, size_t height)
{
	size_t count = 0;
	for (const char *line = text_string(t), *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_in_range(display_width(line, (size_t)(end - line)), 0, width - 1);
		count++;
	}
	assert_int_equal(count, lines);
	assert_in_range(count, 1, height - 1);
}

static void draws(const struct view_model *m, size_t width, size_t height, const char *name)
{
	cleanup_(text_finish) struct text t = {0};
	struct layout_options o = {.width = width, .height = height, .now_ns = 254 * S};
	size_t lines = layout_panel(&t, m, &o);
	check_size(&t, lines, width, height);
	compare(name, &t);
}

static void test_panel_of_8_gpus_matches_the_golden_picture(void **state)
{
	(void)state;
	struct view_model *m = model_of(8);
	draws(m, 80, 24, "8-gpus-80x24");
	draws(m, 200, 60, "8-gpus-200x60");
	view_model_destroy(m);
}

static void test_panel_on_a_small_terminal_matches_the_golden_picture(void **state)
{
	(void)state;
	struct view_model *m = model_of(8);
	draws(m, 40, 10, "8-gpus-40x10");
	view_model_destroy(m);
	m = model_of(4);
	draws(m, 40, 10, "4-gpus-40x10");
	view_model_destroy(m);
}

static void test_panel_with_more_gpus_than_lines_matches_the_golden_picture(void **state)
{
	(void)state;
	struct view_model *m = model_of(64);
	draws(m, 80, 24, "64-gpus-80x24");
	draws(m, 200, 24, "64-gpus-200x24");
	draws(m, 40, 10, "64-gpus-40x10");
	view_model_destroy(m);
}

static void test_panel_in_color_matches_the_golden_picture(void **state)
{
	(void)state;
	struct view_model *m = model_of(8);
	cleanup_(text_finish) struct text t = {0};
	layout_panel(&t, m, &(struct layout_options){.width = 80, .height = 24, .color = true, .now_ns = 254 * S});
	compare("8-gpus-80x24-color", &t);
	view_model_destroy(m);
}

static void test_panel_and_line_at_the_end_show_the_duration(void **state)
{
	(void)state;
	struct view_model *m = model_of(2);
	put_work(m, 1997, 3, 400 * S, 400 * S);
	draws(m, 80, 24, "end-80x24");
	cleanup_(text_finish) struct text t = {0};
	layout_line(&t, m, 500 * S);
	assert_string_equal(text_string(&t), "gpuq run: 100%, 2,000/2,000 done, 3 failed, 5.0/s, took 6m 39s");
	view_model_destroy(m);
}

/* The total is unknown; workers share GPUs; memory is unknown. */
static void test_unknown_total_and_memory_are_not_shown(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(0);
	struct view_work w = {
		.total = -1, .done = 12, .start_ns = S, .time_ns = S, .note = "ending: \033[2J once more"};
	assert_int_equal(view_put_work(m, &w), 0);
	for (int slot = 0; slot < 4; slot++) {
		struct view_gpu g = {.id = slot / 2,
			.slot = slot,
			.since_ns = -1,
			.last_duration_ns = -1,
			.memory_total_bytes = -1,
			.memory_used_bytes = -1,
			.utilization_percent = -1};
		assert_int_equal(view_put_gpu(m, &g), 0);
	}
	draws(m, 80, 24, "unknown-80x24");
	view_model_destroy(m);
}

static void test_line_shows_counts_rate_and_eta(void **state)
{
	(void)state;
	struct view_model *m = model_of(0);
	cleanup_(text_finish) struct text t = {0};
	layout_line(&t, m, 254 * S);
	assert_string_equal(text_string(&t),
		"gpuq run: 53%, 1,066/2,000 done, 3 failed, 7 running, 927 pending, 4.2/s, "
		"4m 13s, about 4 min to go");
	view_model_destroy(m);
}

static void test_commands_that_begin_alike_show_what_tells_them_apart(void **state)
{
	(void)state;
	struct view_model *m = view_model_create(1);
	cleanup_(text_finish) struct text t = {0};
	char task[128];
	for (int i = 0; i < 3; i++) {
		struct view_gpu g = view_gpu_unknown(i, 0);
		snprintf(task, sizeof(task),
			"python train.py --config configs/base.yaml --lr 3e-4 --seed %d --out runs/%d", i + 7, i + 7);
		g.status = VIEW_GPU_PROCESSING;
		g.task = task;
		g.task_id = (uint64_t)i + 41;
		g.since_ns = 0;
		assert_int_equal(view_put_gpu(m, &g), 0);
	}
	layout_panel(&t, m, &(struct layout_options){.width = 80, .height = 24, .now_ns = S});
	assert_non_null(strstr(text_string(&t), "#41 python train.…--seed 7 --out runs/7 "));
	assert_non_null(strstr(text_string(&t), "#43 python train.…--seed 9 --out runs/9 "));
	view_model_destroy(m);
}

/* Whatever the size and the number of GPUs: lines fit. */
static void test_panel_fits_every_terminal_size(void **state)
{
	(void)state;
	for (int gpus = 0; gpus <= 70; gpus += 5) {
		struct view_model *m = model_of(gpus);
		for (size_t width = 20; width < 260; width += 7)
			for (size_t height = 4; height < 80; height += 5) {
				struct text t = {0};
				struct layout_options o = {.width = width, .height = height, .now_ns = 254 * S};
				size_t lines = layout_panel(&t, m, &o);
				check_size(&t, lines, width, height);
				text_finish(&t);
			}
		view_model_destroy(m);
	}
}

static void test_numbers_have_separators_and_rates_a_fitting_unit(void **state)
{
	(void)state;
	char b[LAYOUT_NUMBER_ROOM];
	assert_string_equal(layout_number(0, b), "0");
	assert_string_equal(layout_number(999, b), "999");
	assert_string_equal(layout_number(1000, b), "1,000");
	assert_string_equal(layout_number(UINT64_MAX, b), "18,446,744,073,709,551,615");
	assert_string_equal(layout_rate(0, b), "");
	assert_string_equal(layout_rate(0.001, b), "3.6/h");
	assert_string_equal(layout_rate(0.5, b), "30/min");
	assert_string_equal(layout_rate(4.16, b), "4.2/s");
	assert_string_equal(layout_rate(9.99, b), "10/s");
	assert_string_equal(layout_rate(31400, b), "31k/s");
	assert_string_equal(layout_rate(5.2e6, b), "5.2M/s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_panel_of_8_gpus_matches_the_golden_picture),
		cmocka_unit_test(test_panel_on_a_small_terminal_matches_the_golden_picture),
		cmocka_unit_test(test_panel_with_more_gpus_than_lines_matches_the_golden_picture),
		cmocka_unit_test(test_panel_in_color_matches_the_golden_picture),
		cmocka_unit_test(test_panel_and_line_at_the_end_show_the_duration),
		cmocka_unit_test(test_unknown_total_and_memory_are_not_shown),
		cmocka_unit_test(test_line_shows_counts_rate_and_eta),
		cmocka_unit_test(test_commands_that_begin_alike_show_what_tells_them_apart),
		cmocka_unit_test(test_panel_fits_every_terminal_size),
		cmocka_unit_test(test_numbers_have_separators_and_rates_a_fitting_unit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
