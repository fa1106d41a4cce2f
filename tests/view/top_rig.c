/* SPDX-License-Identifier: MIT */
#include "top_rig.h"

#include <stdlib.h>
#include <time.h>

#include "base/display.h"

#define NOW INT64_C(1763200000000) /* 2025-11-15 09:46:40 UTC */

static const int numbers[] = {0, 1, 2, 3};

void top_rig_put_job(struct top_rig *l, uint64_t id, enum view_job_state state, const char *command)
{
	struct view_attempt a = {.start_ms = NOW - 60000 - (int64_t)id * 1000,
		.end_ms = state == VIEW_JOB_RUNNING ? -1 : NOW - 30000,
		.duration_ms = state == VIEW_JOB_RUNNING ? -1 : 30000,
		.peak_mem_mb = 2048,
		.energy_j = -1,
		.exit_code = state == VIEW_JOB_FAILED ? 3 : -1,
		.state = state,
		.gpus = &numbers[id % 4],
		.num_gpus = 1};
	bool waits = state == VIEW_JOB_PENDING || state == VIEW_JOB_HELD;
	struct view_job j = {.id = id,
		.command = command,
		.state = state,
		.num_gpus = 1,
		.mem_mb = -1,
		.timeout_ms = -1,
		.submit_ms = NOW - 90000,
		.attempts = waits ? NULL : &a,
		.num_attempts = !waits};
	assert_int_equal(view_put_job(l->model, &j), 0);
}

void top_rig_put_gpus(struct top_rig *l, int count)
{
	for (int i = 0; i < count; i++) {
		struct view_gpu g = {.id = i,
			.name = "A100",
			.status = VIEW_GPU_PROCESSING,
			.num_tasks = 1,
			.memory_total_bytes = INT64_C(40) << 30,
			.memory_used_bytes = INT64_C(10) << 30,
			.utilization_percent = 50,
			.temperature_celsius = 61,
			.power_milliwatts = -1};
		assert_int_equal(view_put_gpu(l->model, &g), 0);
		for (int k = 0; k < 300; k++) {
			struct view_sample s = {NOW - 300000 + k * 1000, INT64_C(20) << 30, k % 2 ? 100 : 0};
			assert_int_equal(view_put_sample(l->model, i, &s), 0);
		}
	}
}

int top_rig_setup(void **state)
{
	struct top_rig *l = calloc(1, sizeof(*l));
	setenv("TZ", "UTC", 1);
	tzset();
	if (!l)
		return -1;
	l->model = view_model_create(0);
	top_init(&l->top, l->model);
	l->top.facts = (struct view_facts){.journal = "/home/alice/jobs.jsonl", .runner = 1234};
	*state = l;
	return l->model ? 0 : -1;
}

int top_rig_teardown(void **state)
{
	struct top_rig *l = *state;
	top_finish(&l->top);
	screen_finish(&l->screen);
	text_finish(&l->text);
	view_model_destroy(l->model);
	free(l);
	return 0;
}

/* Appends a row, without spaces at its end. */
static void read_row(const struct screen *s, int row, struct text *t)
{
	size_t end = t->length;
	for (int i = 0; i < s->columns; i++) {
		const char *text = s->cells[row * s->columns + i].text;
		text_append_string(t, text);
		if (strcmp(text, " ") != 0)
			end = t->length;
	}
	if (t->data) {
		t->length = end;
		t->data[end] = '\0';
	}
}

const char *top_rig_draw(struct top_rig *l, int rows, int columns)
{
	text_clear(&l->text);
	assert_int_equal(top_draw(&l->top, &l->screen, rows, columns, NOW, 0), 0);
	assert_int_equal(l->screen.rows, rows);
	for (int i = 0; i < rows; i++) {
		size_t at = l->text.length;
		read_row(&l->screen, i, &l->text);
		assert_true((int)display_width(l->text.data + at, l->text.length - at) <= columns);
		text_append_char(&l->text, '\n');
	}
	return text_string(&l->text);
}

const char *top_rig_row(struct top_rig *l, int i)
{
	text_clear(&l->text);
	read_row(&l->screen, i, &l->text);
	return text_string(&l->text);
}

void top_rig_keys(struct top_rig *l, const char *typed)
{
	for (; *typed; typed++)
		top_key(&l->top, (unsigned char)*typed);
}
