/* SPDX-License-Identifier: MIT */
/* The table of jobs. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/display.h"
#include "base/signals.h"
#include "base/units.h"
#include "view/top/top.h"

#define MAX_COLUMNS 10

struct job_column {
	const char *title;
	int width; /* 0: the remaining width */
	bool right;
	enum view_order order;
	void (*words)(const struct view_job *job, int64_t now_ms, char *out, size_t size);
};

static void id_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	(void)now_ms;
	snprintf(out, size, "%" PRIu64, view_id_number(job->id));
}

static void queue_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	(void)now_ms;
	snprintf(out, size, "%s", job->queue ? job->queue : "");
}

static void state_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	(void)now_ms;
	snprintf(out, size, "%s", palette_job_word(job));
}

static void gpu_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	const struct view_attempt *a = view_job_last(job);
	int n = 0;
	(void)now_ms;
	out[0] = '\0';
	if (job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD)
		return;
	if (a && a->num_gpus > 0 && job->node)
		n = snprintf(out, size, "%.32s:", job->node);
	for (size_t i = 0; a && i < a->num_gpus && n >= 0 && (size_t)n < size; i++)
		n += snprintf(out + n, size - (size_t)n, "%s%d", i ? "," : "", a->gpus[i]);
}

static void time_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	const struct view_attempt *a = view_job_last(job);
	char buf[UNITS_ROOM];
	int64_t ms;
	if (job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD)
		ms = now_ms - job->submit_ms;
	else if (!a)
		ms = -1;
	else if (a->duration_ms >= 0)
		ms = a->duration_ms;
	else
		ms = (a->end_ms >= 0 ? a->end_ms : now_ms) - a->start_ms;
	snprintf(out, size, "%s", ms < 0 ? "" : units_format_duration((uint64_t)ms, buf));
}

/* "35.0", in GiB. */
static void put_gigabytes(int64_t mb, char *out, size_t size)
{
	int64_t tenths = (mb * 10 + 512) / 1024;
	if (mb < 0)
		out[0] = '\0';
	else
		snprintf(out, size, "%lld.%lld", (long long)tenths / 10, (long long)tenths % 10);
}

static void peak_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	const struct view_attempt *a = view_job_last(job);
	(void)now_ms;
	put_gigabytes(a ? a->peak_mem_mb : -1, out, size);
}

static void request_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	(void)now_ms;
	put_gigabytes(job->mem_mb, out, size);
}

static void start_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	const struct view_attempt *a = view_job_last(job);
	out[0] = '\0';
	if (!a || job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD)
		return;
	time_t seconds = (time_t)(a->start_ms / 1000);
	struct tm tm = {0};
	localtime_r(&seconds, &tm);
	if (now_ms - a->start_ms < INT64_C(20) * 3600 * 1000)
		snprintf(out, size, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		snprintf(out, size, "%02d-%02d %02d:%02d", tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
}

static void reason_words(const struct view_job *job, int64_t now_ms, char *out, size_t size)
{
	const struct view_attempt *a = view_job_last(job);
	char buf[UNITS_ROOM];
	out[0] = '\0';
	if (view_job_is_idle(job) && a->idle_since_ms)
		snprintf(out, size, "GPU idle for %s",
			units_format_duration(
				now_ms > a->idle_since_ms ? (uint64_t)(now_ms - a->idle_since_ms) : 0, buf));
	else if (job->reason)
		snprintf(out, size, "%s", job->reason);
	else if (job->state != VIEW_JOB_FAILED && job->state != VIEW_JOB_CANCELLED)
		return;
	else if (a && a->reason)
		snprintf(out, size, "%s", a->reason);
	else if (a && a->signal)
		snprintf(out, size, "%s", signal_name(a->signal));
	else if (a && a->exit_code > 0)
		snprintf(out, size, "exit %d", a->exit_code);
}

static size_t make_columns(const struct top *t, int width, struct job_column columns[MAX_COLUMNS])
{
	size_t n = 0;
	int id_width = 3;
	for (uint64_t number = view_max_number(t->model); number >= 1000; number /= 10)
		id_width++;
	if (t->facts.all_queues && width >= 40) {
		int queue_width = width >= 130 ? 24 : 14;
		columns[n++] = (struct job_column){"QUEUE", queue_width, false, VIEW_BY_ID, queue_words};
		width -= queue_width + 2;
	}
	columns[n++] = (struct job_column){"ID", id_width, true, VIEW_BY_ID, id_words};
	columns[n++] = (struct job_column){"STATE", 9, false, VIEW_BY_STATE, state_words};
	if (width >= 50)
		columns[n++] = (struct job_column){
			"GPU", (t->facts.on_nodes ? 5 : 0) + (width >= 100 ? 7 : 5), false, VIEW_BY_GPU, gpu_words};
	columns[n++] = (struct job_column){"TIME", 7, true, VIEW_BY_DURATION, time_words};
	if (width >= 70) {
		columns[n++] = (struct job_column){"PEAK GiB", 8, true, VIEW_BY_MEMORY, peak_words};
		columns[n++] = (struct job_column){"REQ GiB", 7, true, VIEW_BY_ID, request_words};
	}
	if (width >= 100)
		columns[n++] = (struct job_column){"STARTED", 11, false, VIEW_BY_START, start_words};
	if (width >= 130)
		columns[n++] = (struct job_column){"REASON", 24, false, VIEW_BY_ID, reason_words};
	columns[n++] = (struct job_column){"COMMAND", 0, false, VIEW_BY_NAME, NULL};
	return n;
}

static void draw_titles(
	const struct top *t, struct screen *s, int row, const struct job_column *columns, size_t num_columns, int shown)
{
	int at = 1;
	char words[160];
	screen_fill(s, row, 0, s->columns, SCREEN_REVERSE | SCREEN_DIM, " ");
	for (size_t i = 0; i < num_columns; i++) {
		const struct job_column *c = &columns[i];
		int width = c->width ? c->width : s->columns - at;
		bool sorted = c->order == t->order && c->words != reason_words && c->words != request_words &&
			      c->words != queue_words;
		unsigned style = SCREEN_REVERSE | (sorted ? SCREEN_BOLD : SCREEN_DIM);
		snprintf(words, sizeof(words), "%s%s", c->title, !sorted ? "" : t->reverse ? "▾" : "▴");
		if (c->right)
			screen_put_right(s, row, at, width, style, words);
		else
			screen_put(s, row, at, width, style, words);
		at += width + 2;
	}
	size_t last = t->first + (size_t)shown < t->num_jobs ? t->first + (size_t)shown : t->num_jobs;
	char from[UNITS_ROOM], to[UNITS_ROOM], all[UNITS_ROOM];
	snprintf(words, sizeof(words), "%s %s–%s of %s ", top_states[t->states].name,
		units_format_count(t->num_jobs ? t->first + 1 : 0, from), units_format_count(last, to),
		units_format_count(t->num_jobs, all));
	int width = (int)display_width(words, strlen(words));
	if (s->columns >= 60)
		screen_put(s, row, s->columns - width, width, SCREEN_REVERSE | SCREEN_DIM, words);
}

static unsigned style_of(const struct view_job *job)
{
	return screen_style(palette_color_of(job));
}

static size_t common_prefix(const char *a, const char *b)
{
	size_t n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* The offset at which the command of a row differs from those above and below; 0: at the start, or nowhere. */
static size_t difference(const struct top *t, size_t row)
{
	const char *command = t->jobs[row]->command;
	size_t before = row > 0 ? common_prefix(command, t->jobs[row - 1]->command) : 0;
	size_t after = row + 1 < t->num_jobs ? common_prefix(command, t->jobs[row + 1]->command) : 0;
	size_t at = before > after ? before : after;
	return command[at] ? display_word_start(command, at) : 0;
}

static const char *last_word(const char *command)
{
	const char *space = strrchr(command, ' ');
	return space ? space + 1 : command;
}

/* Whether the commands above and below end with other words than this row's. */
static bool ends_alone(const struct top *t, size_t row)
{
	const char *own = last_word(t->jobs[row]->command);
	return (row == 0 || strcmp(own, last_word(t->jobs[row - 1]->command)) != 0) &&
	       (row + 1 >= t->num_jobs || strcmp(own, last_word(t->jobs[row + 1]->command)) != 0);
}

/* The first word (with its option) from which the rest of the command fits; 0 if there is none. */
static size_t fitting_tail(const char *command, int room)
{
	for (size_t at = 1; command[at]; at++)
		if (command[at - 1] == ' ' && display_word_start(command, at) == at &&
			(int)display_width(command + at, strlen(command + at)) < room)
			return at;
	return 0;
}

static void draw_command(const struct top *t, struct screen *s, int row, int at, size_t index, unsigned style)
{
	const struct view_job *job = t->jobs[index];
	if (job->priority > 0)
		at += screen_put(s, row, at, 2, SCREEN_YELLOW | SCREEN_BOLD, "↑ ");
	if (job->name && *job->name) {
		at += screen_put(s, row, at, 24, style | SCREEN_BOLD, job->name) + 1;
		at += screen_put(s, row, at, 2, SCREEN_DIM, "· ");
	}
	int room = s->columns - at, head = room / 3;
	size_t from = difference(t, index);
	/* Show the difference instead of a shared beginning. */
	if (from && (int)display_width(job->command, strlen(job->command)) > room &&
		(int)display_width(job->command, from) > head) {
		at += screen_put(s, row, at, head, style, job->command);
		size_t tail = ends_alone(t, index) ? fitting_tail(job->command, s->columns - at) : 0;
		screen_put(s, row, at, s->columns - at, style, job->command + (tail ? tail : from));
	} else {
		screen_put(s, row, at, room, style, job->command);
	}
}

static void draw_job(const struct top *t, struct screen *s, int row, const struct job_column *columns,
	size_t num_columns, size_t index, int64_t now_ms)
{
	const struct view_job *job = t->jobs[index];
	char words[PATH_MAX];
	int at = 1;
	unsigned style = style_of(job);
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD;
	bool over = job->state == VIEW_JOB_COMPLETED || job->state == VIEW_JOB_CANCELLED;
	for (size_t i = 0; i < num_columns; i++) {
		const struct job_column *c = &columns[i];
		/* A finished job is dim, except for its state. */
		unsigned own = over ? SCREEN_DIM : SCREEN_PLAIN;
		if (!c->words) {
			draw_command(t, s, row, at, index, own);
			break;
		}
		if (c->words == state_words || c->words == reason_words)
			own = style;
		else if (c->words == time_words && waits)
			own = SCREEN_DIM;
		c->words(job, now_ms, words, sizeof(words));
		if (c->words == queue_words)
			screen_put_path(s, row, at, c->width, own, words);
		else if (c->right)
			screen_put_right(s, row, at, c->width, own, words);
		else
			screen_put(s, row, at, c->width, own, words);
		at += c->width + 2;
	}
	if (t->num_tagged && top_is_tagged(t, job->id))
		screen_put(s, row, 0, 1, SCREEN_YELLOW | SCREEN_BOLD, "▌");
}

/* The cursor is always on the screen. */
static void scroll(struct top *t, int rows)
{
	size_t n = (size_t)(rows > 0 ? rows : 1);
	if (t->cursor < t->first)
		t->first = t->cursor;
	if (t->cursor >= t->first + n)
		t->first = t->cursor - n + 1;
	if (t->first + n > t->num_jobs)
		t->first = t->num_jobs > n ? t->num_jobs - n : 0;
}

void top_draw_jobs(struct top *t, struct screen *s, int row, int rows, int64_t now_ms)
{
	struct job_column columns[MAX_COLUMNS];
	size_t num_columns = make_columns(t, s->columns, columns);
	int shown = rows - 1;
	t->rows = shown;
	scroll(t, shown);
	draw_titles(t, s, row, columns, num_columns, shown);
	for (int i = 0; i < shown && t->first + (size_t)i < t->num_jobs; i++) {
		size_t at = t->first + (size_t)i;
		draw_job(t, s, row + 1 + i, columns, num_columns, at, now_ms);
		if (at == t->cursor)
			screen_invert(s, row + 1 + i, 0, s->columns);
	}
	if (t->num_jobs == 0 && shown > 0)
		screen_put(s, row + 1, 1, s->columns - 2, SCREEN_DIM,
			view_num_jobs(t->model) ? "no job matches; Esc: show all, Tab: other states"
						: "no jobs yet; add one with 'gpuq add'");
}
