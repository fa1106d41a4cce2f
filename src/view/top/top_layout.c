/* SPDX-License-Identifier: MIT */
/* The layout of the whole screen, and what to leave out if it is small. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/display.h"
#include "base/units.h"
#include "view/top/top.h"

#define ENOUGH_ROWS 12 /* to show more than the minimum */

/* ---- Above ------------------------------------------------------------------------------------ */

static void draw_queues(const struct top *t, struct screen *s, int at, int room)
{
	const struct view_facts *f = &t->facts;
	int used = screen_putf(
		s, 0, at, room, SCREEN_REVERSE, "%zu queue%s", f->num_queues, f->num_queues == 1 ? "" : "s");
	if (f->num_unreadable)
		screen_putf(s, 0, at + used, room - used, SCREEN_REVERSE | SCREEN_BOLD, ", %zu unreadable",
			f->num_unreadable);
}

static void draw_title(const struct top *t, struct screen *s, int64_t now_ms)
{
	char clock[16], runner[48];
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm tm = {0};
	localtime_r(&seconds, &tm);
	snprintf(clock, sizeof(clock), "%02d:%02d:%02d ", tm.tm_hour, tm.tm_min, tm.tm_sec);
	screen_fill(s, 0, 0, s->columns, SCREEN_REVERSE, " ");
	int at = screen_put(s, 0, 1, 9, SCREEN_REVERSE | SCREEN_BOLD, "gpuq top") + 3;
	int right = s->columns - 9;
	screen_put(s, 0, right, 9, SCREEN_REVERSE, clock);
	bool nobody = t->facts.runner == 0 && !t->facts.runner_hidden;
	if (t->facts.paused)
		snprintf(runner, sizeof(runner), "paused: gpuq resume  ");
	else if (t->facts.num_runners > 1)
		snprintf(runner, sizeof(runner), "%zu runners  ", t->facts.num_runners);
	else if (nobody)
		snprintf(runner, sizeof(runner), "no runner  ");
	else if (t->facts.runner_hidden)
		snprintf(runner, sizeof(runner), "runner not visible  ");
	else if (t->facts.runner > 0)
		snprintf(runner, sizeof(runner), "runner %" PRId64 "  ", t->facts.runner);
	else
		snprintf(runner, sizeof(runner), "remote runner  ");
	int width = (int)strlen(runner);
	if (right - width > at) {
		right -= width;
		screen_put(s, 0, right, width, SCREEN_REVERSE | (nobody || t->facts.paused ? SCREEN_BOLD : 0), runner);
	}
	if (t->facts.all_queues) {
		draw_queues(t, s, at, right - at - 2);
		return;
	}
	const char *path = t->facts.journal ? t->facts.journal : "";
	int room = right - at - 2, length = (int)display_width(path, strlen(path));
	/* Show the end of a long path. */
	if (length > room && room > 12) {
		const char *slash = strrchr(path, '/');
		for (const char *p = path; slash && p < slash; p++)
			if (*p == '/' && (int)display_width(p, strlen(p)) + 1 <= room) {
				at += screen_put(s, 0, at, 1, SCREEN_REVERSE, "…");
				path = p;
				break;
			}
	}
	screen_put(s, 0, at, right - at - 2, SCREEN_REVERSE, path);
}

static int put_count(struct screen *s, int row, int at, unsigned style, size_t n, const char *word)
{
	if (n == 0)
		style = SCREEN_DIM;
	char number[UNITS_ROOM];
	int used =
		screen_put(s, row, at, s->columns - at, style | (n ? SCREEN_BOLD : 0), units_format_count(n, number));
	used += screen_putf(s, row, at + used, s->columns - at - used, style, " %s", word);
	return at + used + 2;
}

static void draw_counts(const struct top *t, struct screen *s, int row, uint64_t now_ns)
{
	const struct view_model *m = t->model;
	/* Most important first: a narrow screen cuts off the end. */
	static const enum view_job_state order[] = {VIEW_JOB_RUNNING, VIEW_JOB_PENDING, VIEW_JOB_FAILED,
		VIEW_JOB_UNKNOWN, VIEW_JOB_HELD, VIEW_JOB_COMPLETED, VIEW_JOB_CANCELLED};
	char words[96], eta[UNITS_ROOM];
	int at = 1, n = 0;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		size_t count = view_job_count(m, order[i]);
		if (count || order[i] == VIEW_JOB_RUNNING || order[i] == VIEW_JOB_PENDING ||
			order[i] == VIEW_JOB_FAILED)
			at = put_count(s, row, at, screen_style(palette_of_job(order[i])), count,
				view_job_state_name(order[i]));
	}
	double rate = view_rate(m, now_ns);
	int64_t left = view_eta_ns(m, now_ns);
	bool open = view_job_count(m, VIEW_JOB_RUNNING) + view_job_count(m, VIEW_JOB_PENDING) > 0;
	if (rate > 0 && open) {
		unsigned tenths = (unsigned)((rate < 1 ? rate * 60 : rate) * 10 + 0.5);
		n = snprintf(words, sizeof(words), "%u.%u/%s  ", tenths / 10, tenths % 10, rate < 1 ? "min" : "s");
	}
	if (left >= 0 && open)
		n += snprintf(words + n, sizeof(words) - (size_t)n, "%s to go ",
			units_format_about((uint64_t)left / 1000000, eta));
	if (n && at + n < s->columns)
		screen_put(s, row, s->columns - n, n, SCREEN_DIM, words);
}

/* ---- Below ------------------------------------------------------------------------------------- */

static void draw_detail(const struct top *t, struct screen *s, int row)
{
	const struct view_job *j = t->num_jobs ? t->jobs[t->cursor] : NULL;
	if (!j)
		return;
	const struct view_attempt *a = view_job_last(j);
	const char *reason = j->reason ? j->reason : a ? a->reason : NULL;
	int at = 1;
	at += screen_putf(
		s, row, at, s->columns - at, SCREEN_BOLD, "%" PRIu64 " %s", view_id_number(j->id), palette_job_word(j));
	bool told = reason && strcmp(reason, view_job_state_name(j->state)) == 0; /* "cancelled" */
	if (reason && !told && j->state != VIEW_JOB_COMPLETED && j->state != VIEW_JOB_RUNNING)
		at += screen_putf(s, row, at, s->columns - at, SCREEN_PLAIN, ": %s", reason);
	else if (j->state == VIEW_JOB_FAILED && a && a->exit_code > 0)
		at += screen_putf(s, row, at, s->columns - at, SCREEN_PLAIN, ": exit %d", a->exit_code);
	if (j->num_attempts > 1)
		at += screen_putf(s, row, at, s->columns - at, SCREEN_PLAIN, ", attempt %zu", j->num_attempts);
	at += screen_put(s, row, at, 3, SCREEN_DIM, "  ");
	screen_put(s, row, at, s->columns - at, SCREEN_DIM, j->command);
}

/* Like htop: the key, then its action. */
static void draw_keys(struct screen *s, int row)
{
	static const struct {
		const char *key, *name;
	} keys[] = {{"?", "Keys"}, {"q", "Quit"}, {"↵", "Details"}, {"l", "Log"}, {"c", "Cancel"}, {"r", "Retry"},
		{"h", "Hold"}, {"u", "Urgent"}, {"/", "Filter"}, {"s", "Sort"}, {"Tab", "States"}};
	int at = 1;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		int width = (int)(display_width(keys[i].key, strlen(keys[i].key)) + strlen(keys[i].name) + 3);
		if (at + width > s->columns + 2)
			break;
		at += screen_put(s, row, at, 8, SCREEN_BOLD, keys[i].key) + 1;
		at += screen_put(s, row, at, 16, SCREEN_DIM, keys[i].name) + 2;
	}
}

static void draw_filter(struct screen *s, int row, const struct top *t)
{
	int at = 1 + screen_put(s, row, 1, 8, SCREEN_BOLD, "Filter:");
	at += 1;
	int used = screen_put(s, row, at, s->columns - at - 1, SCREEN_PLAIN, t->filter);
	if (t->mode == TOP_FILTER) {
		s->cursor_row = row;
		s->cursor_column = at + used < s->columns ? at + used : s->columns - 1;
	} else {
		screen_put(s, row, at + used + 2, s->columns, SCREEN_DIM, "Esc: show all");
	}
}

static void draw_question(struct screen *s, int row, const struct top *t)
{
	size_t count;
	const uint64_t *ids = top_chosen(t, &count);
	const struct view_job *j = count ? view_find_job(t->model, ids[0]) : NULL;
	char words[160];
	/* The last part of its path: the row of the job shows more. */
	const char *queue = j && j->queue ? j->queue : "", *slash = strrchr(queue, '/');
	if (count == 1)
		snprintf(words, sizeof(words), "Cancel %sjob %" PRIu64 "%s%.60s? y/n ",
			j && j->state == VIEW_JOB_RUNNING ? "running " : "", view_id_number(ids[0]),
			*queue ? " of " : "", slash ? slash + 1 : queue);
	else
		snprintf(words, sizeof(words), "Cancel %zu selected jobs? y/n ", count);
	int used = screen_put(s, row, 1, s->columns - 1, SCREEN_YELLOW | SCREEN_BOLD, words);
	s->cursor_row = row;
	s->cursor_column = 1 + used < s->columns ? 1 + used : s->columns - 1;
}

static void draw_last_line(struct screen *s, int row, const struct top *t)
{
	if (t->mode == TOP_CONFIRM)
		draw_question(s, row, t);
	else if (t->mode == TOP_FILTER)
		draw_filter(s, row, t);
	else if (t->message[0])
		screen_put(
			s, row, 1, s->columns - 1, t->message_bad ? SCREEN_RED | SCREEN_BOLD : SCREEN_BOLD, t->message);
	else if (t->num_tagged)
		screen_putf(s, row, 1, s->columns - 1, SCREEN_YELLOW,
			"%zu selected: c cancel, r retry, h hold, u urgent, Esc clear", t->num_tagged);
	else if (t->filter[0])
		draw_filter(s, row, t);
	else
		draw_keys(s, row);
}

/* ---- Overlays -------------------------------------------------------------------------------- */

static void draw_sort(const struct top *t, struct screen *s)
{
	int width = 30, top = s->rows / 2 - TOP_ORDERS / 2 - 1, left = (s->columns - width) / 2;
	top = top < 0 ? 0 : top;
	left = left < 0 ? 0 : left;
	screen_box(s, top, left, width, TOP_ORDERS + 2, "Sort by", "Enter or number");
	for (int i = 0; i < TOP_ORDERS; i++) {
		unsigned style = i == t->sort_choice ? SCREEN_REVERSE : SCREEN_PLAIN;
		screen_fill(s, top + 1 + i, left + 1, width - 2, style, " ");
		screen_putf(s, top + 1 + i, left + 2, width - 4, style, "%d  %s", i + 1, top_orders[i].name);
	}
}

int top_draw(struct top *t, struct screen *s, int rows, int columns, int64_t now_ms, uint64_t now_ns)
{
	t->now_ms = now_ms;
	int r = screen_begin(s, rows, columns);
	if (r == 0)
		r = top_list(t, now_ms);
	if (r < 0)
		return r;
	if (t->mode == TOP_LOG) {
		top_draw_log(t, s);
		return 0;
	}
	bool roomy = s->rows >= ENOUGH_ROWS;
	int row = 1;
	draw_title(t, s, now_ms);
	if (s->rows >= 6)
		draw_counts(t, s, row++, now_ns);
	int last = s->rows - 1;
	/* A blank line before and after, if there is space. */
	int gap = s->rows >= 20;
	if (s->rows >= 8) {
		int used = top_draw_gpus(t, s, row + gap, roomy ? s->rows * 2 / 5 - gap : s->rows / 4);
		row += used ? used + 2 * gap : gap;
		used = top_draw_runs(t, s, row, s->rows / 4);
		row += used ? used + gap : 0;
	}
	int bottom = s->rows > 1 ? last : s->rows;
	if (roomy)
		draw_detail(t, s, --bottom);
	if (bottom - row > 0)
		top_draw_jobs(t, s, row, bottom - row, now_ms);
	if (s->rows > 1)
		draw_last_line(s, last, t);
	if (t->mode == TOP_SORT)
		draw_sort(t, s);
	else if (t->mode == TOP_PAGE)
		top_draw_page(t, s);
	return 0;
}
