/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/display.h"
#include "view/top/top.h"

#define NOW INT64_C(1763200000000) /* 2025-11-15 09:46:40 UTC */

static const int numbers[] = {0, 1, 2, 3};

struct top_rig {
	struct view_model *model;
	struct top top;
	struct screen screen;
	struct text text;
};

static void put_job(struct top_rig *l, uint64_t id, enum view_job_state state, const char *command)
{
	struct view_attempt a = {.start_ms = NOW - 60000 - (int64_t)id * 1000,
		.end_ms = state == VIEW_JOB_RUNNING ? -1 : NOW - 30000,
		.duration_ms = state == VIEW_JOB_RUNNING ? -1 : 30000,
		.peak_mem_mb = 2048,
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

static void put_gpus(struct top_rig *l, int count)
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

static int setup(void **state)
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

static int teardown(void **state)
{
	struct top_rig *l = *state;
	top_finish(&l->top);
	screen_finish(&l->screen);
	text_finish(&l->text);
	view_model_destroy(l->model);
	free(l);
	return 0;
}

/* A row as text, without spaces at its end. */
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

/* The screen as text, every row as wide as it may be. */
static const char *draw(struct top_rig *l, int rows, int columns)
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

static const char *row(struct top_rig *l, int i)
{
	text_clear(&l->text);
	read_row(&l->screen, i, &l->text);
	return text_string(&l->text);
}

static void keys(struct top_rig *l, const char *typed)
{
	for (; *typed; typed++)
		top_key(&l->top, (unsigned char)*typed);
}

#define assert_shows(text, piece)                                                                                      \
	do {                                                                                                           \
		const char *shown_ = (text);                                                                           \
		if (!strstr(shown_, piece))                                                                            \
			fail_msg("'%s' is not on:\n%s", piece, shown_);                                                \
	} while (0)

#define assert_shows_not(text, piece)                                                                                  \
	do {                                                                                                           \
		const char *shown_ = (text);                                                                           \
		if (strstr(shown_, piece))                                                                             \
			fail_msg("'%s' is on:\n%s", piece, shown_);                                                    \
	} while (0)

/* ---- The screen ------------------------------------------------------------------------------ */

static void test_cells_are_never_left_with_half_a_character(void **state)
{
	struct top_rig *l = *state;
	struct screen *s = &l->screen;
	assert_int_equal(screen_begin(s, 2, 6), 0);
	assert_int_equal(screen_put(s, 0, 0, 6, 0, "日本語"), 6);
	assert_int_equal(screen_put(s, 0, 1, 1, 0, "x"), 1);
	assert_string_equal(row(l, 0), " x本語");
	screen_put(s, 0, 4, 1, 0, "y");
	assert_string_equal(row(l, 0), " x本y");
	/* One column is not enough for a wide one; an ellipsis stands for it. */
	assert_int_equal(screen_put(s, 1, 5, 9, 0, "日本"), 1);
	assert_string_equal(row(l, 1), "     …");
	/* Outside of the screen nothing happens. */
	assert_int_equal(screen_put(s, 7, 0, 6, 0, "x"), 0);
	assert_int_equal(screen_put(s, 0, 6, 6, 0, "x"), 0);
	assert_int_equal(screen_put(s, 0, -1, 6, 0, "x"), 0);
	screen_fill(s, 1, 3, 100, 0, "-");
	assert_string_equal(row(l, 1), "   ---");
}

static void test_marks_go_with_their_character(void **state)
{
	struct top_rig *l = *state;
	assert_int_equal(screen_begin(&l->screen, 1, 4), 0);
	assert_int_equal(screen_put(&l->screen, 0, 0, 4, 0, "e\u0301x"), 2);
	assert_string_equal(row(l, 0), "e\u0301x");
	/* More of them than a cell can hold are left out. */
	assert_int_equal(screen_put(&l->screen, 0, 0, 4, 0,
				 "a\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301"),
		1);
	assert_true(strlen(l->screen.cells[0].text) < SCREEN_CELL);
}

static void test_bars_and_plots_have_the_right_height(void **state)
{
	struct top_rig *l = *state;
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.5);
	assert_string_equal(row(l, 0), "━━━━────");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.001);
	assert_string_equal(row(l, 0), "╸───────");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 0.999);
	assert_string_equal(row(l, 0), "━━━━━━━╸");
	screen_bar(&l->screen, 0, 0, 8, SCREEN_GREEN, 7);
	assert_string_equal(row(l, 0), "━━━━━━━━");
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	const int values[] = {-1, 0, 25, 50, 75, 100};
	screen_plot(&l->screen, 0, 0, 4, 1, SCREEN_GREEN, values, 6);
	assert_string_equal(row(l, 0), " ⢀⣠⣾");
	assert_int_equal(screen_begin(&l->screen, 2, 8), 0);
	screen_plot(&l->screen, 0, 0, 4, 2, SCREEN_GREEN, values, 5);
	assert_string_equal(row(l, 0), "   ⢠");
	assert_string_equal(row(l, 1), "  ⣠⣿");
	screen_plot(&l->screen, 0, 0, 4, 1, SCREEN_GREEN, values, 0);
}

/* ---- The layout --------------------------------------------------------------------------------- */

static void test_screen_shows_queue_gpus_and_jobs(void **state)
{
	struct top_rig *l = *state;
	put_gpus(l, 2);
	put_job(l, 1, VIEW_JOB_COMPLETED, "python done.py");
	put_job(l, 2, VIEW_JOB_RUNNING, "python train.py");
	put_job(l, 3, VIEW_JOB_PENDING, "python later.py");
	put_job(l, 4, VIEW_JOB_FAILED, "python bad.py");
	draw(l, 24, 80);
	assert_string_equal(
		row(l, 0), " gpuq top  /home/alice/jobs.jsonl                         runner 1234  09:46:40");
	assert_string_equal(row(l, 1), " 1 running  1 pending  1 completed  1 failed");
	assert_shows(row(l, 3), "  0 mem ━━━──────── 10.0/40.0G  gpu ━━━━━╸─────  50%  61°C 1 job A100");
	assert_shows(row(l, 12), "  ID  STATE▴     GPU       TIME       MEM  COMMAND");
	assert_shows(row(l, 12), "all 1–4 of 4");
	assert_string_equal(row(l, 13), "   2  running    2       1m 02s    2.0 GB  python train.py");
	assert_string_equal(row(l, 14), "   3  pending            1m 30s            python later.py");
	assert_string_equal(row(l, 15), "   4  failed     0          30s    2.0 GB  python bad.py");
	assert_string_equal(row(l, 16), "   1  completed  1          30s    2.0 GB  python done.py");
	assert_string_equal(row(l, 22), " 2 running  python train.py");
	assert_shows(row(l, 23), "? Keys");
}

static void test_every_screen_size_is_drawn(void **state)
{
	struct top_rig *l = *state;
	put_gpus(l, 64);
	for (uint64_t i = 1; i <= 300; i++)
		put_job(l, i, (enum view_job_state)(i % VIEW_JOB_STATES),
			"python 日本語 größe e\u0301\x1b[31m\t\n🦜 --long --long");
	for (int rows = 1; rows < 70; rows++)
		for (int columns = 1; columns < 210; columns += columns < 20 ? 1 : 13)
			draw(l, rows, columns);
	for (int mode = TOP_LIST; mode <= TOP_LOG; mode++) {
		l->top.mode = (enum top_mode)mode;
		log_tail_append(&l->top.log, "one\ntwo\n", 8);
		for (int rows = 1; rows < 30; rows += 3)
			for (int columns = 1; columns < 100; columns += 3)
				draw(l, rows, columns);
	}
	l->top.mode = TOP_LIST;
	assert_shows(draw(l, 10, 40), "running");
	assert_shows(draw(l, 3, 40), "gpuq top");
}

static void test_gpus_that_do_not_fit_can_be_scrolled(void **state)
{
	struct top_rig *l = *state;
	put_gpus(l, 64);
	put_job(l, 1, VIEW_JOB_RUNNING, "x");
	const char *all = draw(l, 60, 200);
	for (int i = 0; i < 64; i++) {
		char label[32];
		snprintf(label, sizeof(label), " %d ", i);
		assert_shows(all, label);
	}
	assert_shows_not(all, "[ ]");
	assert_shows(draw(l, 24, 80), "lines 1–8 of 16, [ ]");
	assert_shows(row(l, 3), "  0 ");
	keys(l, "]]");
	draw(l, 24, 80);
	assert_shows(row(l, 3), "  2 ");
	keys(l, "]]]]]]]]]]]]]]]");
	assert_shows(draw(l, 24, 80), "lines 9–16 of 16");
	keys(l, "[");
	assert_shows(draw(l, 24, 80), "lines 8–15 of 16");
}

static void test_unknown_values_are_not_drawn(void **state)
{
	struct top_rig *l = *state;
	struct view_gpu g = {.id = 0,
		.memory_total_bytes = -1,
		.memory_used_bytes = -1,
		.utilization_percent = -1,
		.temperature_celsius = -1,
		.power_milliwatts = -1};
	struct view_gpu sick = {.id = 1, .status = VIEW_GPU_ERROR, .error = "fell off the bus"};
	assert_int_equal(view_put_gpu(l->model, &g), 0);
	assert_int_equal(view_put_gpu(l->model, &sick), 0);
	draw(l, 24, 80);
	assert_string_equal(row(l, 3), "  0 mem                      –  gpu                –");
	assert_shows(draw(l, 24, 80), "  1 fell off the bus");
	assert_shows(draw(l, 24, 80), "no jobs yet");
}

/* ---- Keys --------------------------------------------------------------------------------------------- */

static void test_the_cursor_stays_on_its_job(void **state)
{
	struct top_rig *l = *state;
	for (uint64_t i = 1; i <= 50; i++)
		put_job(l, i, VIEW_JOB_PENDING, "job");
	draw(l, 24, 80);
	/* Until it is moved, it is on the first row, whatever that is. */
	put_job(l, 40, VIEW_JOB_RUNNING, "job");
	draw(l, 24, 80);
	assert_int_equal(l->top.jobs[l->top.cursor]->id, 40);
	top_key(&l->top, TOP_KEY_DOWN);
	top_key(&l->top, TOP_KEY_DOWN);
	assert_int_equal(l->top.job, 2);
	put_job(l, 41, VIEW_JOB_RUNNING, "job");
	put_job(l, 2, VIEW_JOB_COMPLETED, "job");
	draw(l, 24, 80);
	assert_int_equal(l->top.job, 2);
	assert_int_equal(l->top.jobs[l->top.cursor]->id, 2);
	/* The model has changed since the list was made: nothing of the old one is touched. */
	view_forget_jobs(l->model);
	for (uint64_t i = 1; i <= 50; i++)
		if (i != 2)
			put_job(l, i, i == 40 || i == 41 ? VIEW_JOB_RUNNING : VIEW_JOB_PENDING, "job");
	top_key(&l->top, TOP_KEY_DOWN);
	draw(l, 24, 80);
	assert_non_null(view_find_job(l->model, l->top.job));
	top_key(&l->top, TOP_KEY_END);
	assert_int_equal(l->top.cursor, 48);
	top_key(&l->top, TOP_KEY_PAGE_UP);
	assert_true(l->top.cursor < 48);
	top_key(&l->top, TOP_KEY_HOME);
	draw(l, 24, 80);
	assert_int_equal(l->top.cursor, 0);
	view_forget_jobs(l->model);
	top_key(&l->top, TOP_KEY_DOWN);
	keys(l, "c wrhul");
	assert_int_equal(l->top.request, TOP_NOTHING);
	draw(l, 24, 80);
}

static void test_typed_filter_selects_jobs_and_keys_are_letters_meanwhile(void **state)
{
	struct top_rig *l = *state;
	put_job(l, 1, VIEW_JOB_PENDING, "train größe");
	put_job(l, 2, VIEW_JOB_PENDING, "evaluate");
	draw(l, 24, 80);
	keys(l, "/q");
	assert_int_equal(l->top.request, TOP_NOTHING); /* a letter of the filter, not the key */
	assert_shows(draw(l, 24, 80), "no job matches");
	top_key(&l->top, TOP_KEY_BACKSPACE);
	keys(l, "gr");
	top_key(&l->top, 0xf6); /* ö */
	const char *shown = draw(l, 24, 80);
	assert_shows(shown, "Filter: grö");
	assert_shows(shown, "train");
	assert_shows_not(shown, "evaluate");
	assert_true(l->screen.cursor_row == 23);
	top_key(&l->top, TOP_KEY_BACKSPACE);
	assert_shows(draw(l, 24, 80), "Filter: gr");
	top_key(&l->top, TOP_KEY_ENTER);
	assert_shows(draw(l, 24, 80), "Esc shows all");
	assert_true(l->screen.cursor_row < 0);
	top_key(&l->top, TOP_KEY_ESCAPE);
	assert_shows(draw(l, 24, 80), "evaluate");
	keys(l, "/");
	for (int i = 0; i < 500; i++)
		top_key(&l->top, 0x1f99c);
	assert_true(strlen(l->top.filter) < TOP_FILTER_ROOM);
	draw(l, 24, 80);
}

static void test_cancel_asks_first(void **state)
{
	struct top_rig *l = *state;
	size_t count;
	put_job(l, 7, VIEW_JOB_RUNNING, "train");
	draw(l, 24, 80);
	keys(l, "c");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(draw(l, 24, 80), "Cancel job 7, which is running,? y/n");
	keys(l, "n");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(draw(l, 24, 80), "nothing was cancelled");
	keys(l, "ky");
	assert_int_equal(l->top.request, TOP_ACT);
	assert_int_equal(l->top.action, VIEW_CANCEL);
	assert_int_equal(top_chosen(&l->top, &count)[0], 7);
	assert_int_equal(count, 1);
}

static void test_key_acts_only_where_the_job_allows_it(void **state)
{
	struct top_rig *l = *state;
	put_job(l, 1, VIEW_JOB_HELD, "a");
	draw(l, 24, 80);
	keys(l, "h");
	assert_int_equal(l->top.request, TOP_ACT);
	assert_int_equal(l->top.action, VIEW_RELEASE);
	keys(l, "r");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(draw(l, 24, 80), "job 1 is held: there is nothing to retry");
	put_job(l, 1, VIEW_JOB_PENDING, "a");
	keys(l, "h");
	assert_int_equal(l->top.action, VIEW_HOLD);
	keys(l, "u");
	assert_int_equal(l->top.action, VIEW_URGENT);
	keys(l, "w");
	assert_int_equal(l->top.request, TOP_WHY);
	top_key(&l->top, TOP_KEY_ENTER);
	assert_int_equal(l->top.request, TOP_OPEN_LOG);
	keys(l, "q");
	assert_int_equal(l->top.request, TOP_QUIT);
}

static void test_action_applies_to_all_tagged_jobs(void **state)
{
	struct top_rig *l = *state;
	size_t count;
	for (uint64_t i = 1; i <= 40; i++)
		put_job(l, i, VIEW_JOB_PENDING, "a");
	draw(l, 24, 80);
	keys(l, "   ");
	assert_shows(draw(l, 24, 80), "3 tagged");
	assert_shows(draw(l, 24, 80), "▌  2");
	top_key(&l->top, TOP_KEY_UP);
	keys(l, " "); /* the third is no more */
	keys(l, "c");
	assert_shows(draw(l, 24, 80), "Cancel 2 tagged jobs? y/n");
	keys(l, "y");
	assert_int_equal(l->top.request, TOP_ACT);
	top_chosen(&l->top, &count);
	assert_int_equal(count, 2);
	top_key(&l->top, TOP_KEY_ESCAPE);
	assert_int_equal(l->top.num_tagged, 0);
}

static void test_keys_choose_order_and_states(void **state)
{
	struct top_rig *l = *state;
	put_job(l, 1, VIEW_JOB_PENDING, "b");
	put_job(l, 2, VIEW_JOB_RUNNING, "a");
	draw(l, 24, 80);
	assert_int_equal(l->top.jobs[0]->id, 2);
	keys(l, "s");
	assert_shows(draw(l, 24, 80), "Order by");
	keys(l, "2");
	draw(l, 24, 80);
	assert_int_equal(l->top.jobs[0]->id, 1);
	keys(l, "I");
	assert_shows(draw(l, 24, 80), "ID▾");
	assert_int_equal(l->top.jobs[0]->id, 2);
	keys(l, "<");
	assert_shows(draw(l, 24, 80), "ordered by state");
	keys(l, "\t");
	assert_shows(draw(l, 24, 80), "open 1–2 of 2");
	keys(l, "\t");
	assert_shows(draw(l, 24, 80), "failed 0–0 of 0");
}

static void test_help_fits_a_small_screen(void **state)
{
	struct top_rig *l = *state;
	keys(l, "?");
	assert_shows(draw(l, 24, 80), "cancel (asks first)");
	assert_shows_not(draw(l, 10, 40), "these keys");
	for (int i = 0; i < 30; i++)
		top_key(&l->top, TOP_KEY_DOWN);
	assert_shows(draw(l, 10, 40), "leave; jobs");
	keys(l, "x");
	assert_int_equal(l->top.mode, TOP_LIST);
}

/* ---- Logs ------------------------------------------------------------------------------------------------ */

static void append(struct top_rig *l, const char *text)
{
	assert_int_equal(log_tail_append(&l->top.log, text, strlen(text)), 0);
}

static void test_a_log_reads_as_in_a_terminal(void **state)
{
	struct top_rig *l = *state;
	top_show_log(&l->top, 1);
	append(l, "\x1b[1;31mred\x1b[0m and \x1b]0;title\aplain\n");
	append(l, "  0%\r 50%\r100%\r\n");
	append(l, "a\tb\n\n\xff\x01 größe");
	draw(l, 24, 80);
	assert_string_equal(row(l, 1), "red and plain");
	assert_string_equal(row(l, 2), "100%");
	assert_string_equal(row(l, 3), "a       b");
	assert_string_equal(row(l, 4), "");
	assert_string_equal(row(l, 5), "\\xff\\x01 größe");
	/* A line goes on where it was. */
	append(l, "r\nnext");
	draw(l, 24, 80);
	assert_string_equal(row(l, 5), "\\xff\\x01 größer");
	assert_string_equal(row(l, 6), "next");
}

static void test_a_log_is_followed_until_one_scrolls(void **state)
{
	struct top_rig *l = *state;
	char line[32];
	top_show_log(&l->top, 1);
	for (int i = 1; i <= 100; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		append(l, line);
	}
	draw(l, 12, 80);
	assert_string_equal(row(l, 1), "line 91");
	assert_string_equal(row(l, 10), "line 100");
	assert_shows(draw(l, 12, 80), "following");
	top_key(&l->top, TOP_KEY_UP);
	append(l, "line 101\n");
	draw(l, 12, 80);
	assert_string_equal(row(l, 1), "line 90");
	assert_shows(draw(l, 12, 80), "stopped");
	keys(l, "F");
	draw(l, 12, 80);
	assert_string_equal(row(l, 10), "line 101");
	keys(l, "g");
	draw(l, 12, 80);
	assert_string_equal(row(l, 1), "line 1");
	for (int i = 0; i < 20; i++)
		top_key(&l->top, TOP_KEY_PAGE_DOWN);
	assert_shows(draw(l, 12, 80), "following");
	keys(l, "q");
	assert_int_equal(l->top.request, TOP_CLOSE_LOG);
	assert_int_equal(l->top.mode, TOP_LIST);
}

static void test_long_lines_wrap_or_are_cut(void **state)
{
	struct top_rig *l = *state;
	top_show_log(&l->top, 1);
	append(l, "0123456789012345678901234567890123456789abcdefghij\nnext\n");
	draw(l, 8, 40);
	assert_string_equal(row(l, 1), "0123456789012345678901234567890123456789");
	assert_string_equal(row(l, 2), "abcdefghij");
	assert_string_equal(row(l, 3), "next");
	keys(l, "w");
	draw(l, 8, 40);
	assert_string_equal(row(l, 1), "012345678901234567890123456789012345678…");
	assert_string_equal(row(l, 2), "next");
	top_key(&l->top, TOP_KEY_RIGHT);
	top_key(&l->top, TOP_KEY_RIGHT);
	draw(l, 8, 40);
	assert_string_equal(row(l, 1), "678901234567890123456789abcdefghij");
}

static void test_of_a_long_log_the_end_is_kept(void **state)
{
	struct top_rig *l = *state;
	struct log_tail *tail = &l->top.log;
	char line[64];
	top_show_log(&l->top, 1);
	for (int i = 1; i <= 100000; i++) {
		int n = snprintf(line, sizeof(line), "line %d of a log that is long\n", i);
		assert_int_equal(log_tail_append(tail, line, (size_t)n), 0);
		assert_true(tail->bytes.length <= LOG_TAIL_BYTES);
	}
	assert_true(tail->cut);
	assert_int_equal(tail->num_dropped + log_tail_lines(tail), 100000);
	draw(l, 12, 80);
	assert_string_equal(row(l, 10), "line 100000 of a log that is long");
	keys(l, "g");
	draw(l, 12, 80);
	snprintf(line, sizeof(line), "line %d of a log that is long", (int)tail->num_dropped + 1);
	assert_string_equal(row(l, 1), line);
	/* One line without an end. */
	char *endless = malloc(3 * LOG_TAIL_BYTES);
	assert_non_null(endless);
	memset(endless, 'x', 3 * LOG_TAIL_BYTES);
	assert_int_equal(log_tail_append(tail, endless, 3 * LOG_TAIL_BYTES), 0);
	free(endless);
	assert_true(tail->bytes.length <= LOG_TAIL_BYTES);
	keys(l, "F");
	draw(l, 12, 80);
	assert_shows(row(l, 1), "xxx");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cells_are_never_left_with_half_a_character),
		TEST(test_marks_go_with_their_character),
		TEST(test_bars_and_plots_have_the_right_height),
		TEST(test_screen_shows_queue_gpus_and_jobs),
		TEST(test_every_screen_size_is_drawn),
		TEST(test_gpus_that_do_not_fit_can_be_scrolled),
		TEST(test_unknown_values_are_not_drawn),
		TEST(test_the_cursor_stays_on_its_job),
		TEST(test_typed_filter_selects_jobs_and_keys_are_letters_meanwhile),
		TEST(test_cancel_asks_first),
		TEST(test_key_acts_only_where_the_job_allows_it),
		TEST(test_action_applies_to_all_tagged_jobs),
		TEST(test_keys_choose_order_and_states),
		TEST(test_help_fits_a_small_screen),
		TEST(test_a_log_reads_as_in_a_terminal),
		TEST(test_a_log_is_followed_until_one_scrolls),
		TEST(test_long_lines_wrap_or_are_cut),
		TEST(test_of_a_long_log_the_end_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
