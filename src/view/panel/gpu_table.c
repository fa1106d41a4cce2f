/* SPDX-License-Identifier: MIT */
#include "view/panel/gpu_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/display.h"
#include "base/units.h"
#include "view/panel/ink.h"

enum gpu_column { GPU, NAME, STATUS, TASK, TIME, DONE, FAILED, MEMORY, LOAD, COLUMNS };

#define BETWEEN 3 /* " │ ", between tables side by side */

/* The width of each column; 0: not shown. */
struct column_plan {
	size_t widths[COLUMNS];
	size_t gap;
	size_t memory_bar, load_bar; /* widths of the bars; 0: only the number */
	bool amounts;                /* show memory as "60.1/80 GiB" */
	bool words;                  /* show statuses as words */
	size_t left;                 /* free columns */
};

/* The widths and kinds of data of the GPUs. */
struct extent {
	size_t label, name, done, failed;
	bool memory, load, running;
};

/* "3", or "3.1" if the GPU has several rows. */
static void label_of(const struct view_model *m, size_t i, char buf[32])
{
	const struct view_gpu *g = view_gpu(m, i), *next = view_gpu(m, i + 1);
	const struct view_gpu *before = i ? view_gpu(m, i - 1) : NULL;
	if (g->id < 0)
		snprintf(buf, 32, "CPU");
	else if ((next && next->id == g->id) || (before && before->id == g->id))
		snprintf(buf, 32, "%d.%d", g->id, g->slot);
	else
		snprintf(buf, 32, "%d", g->id);
}

static size_t wider(size_t a, size_t b)
{
	return a > b ? a : b;
}

static struct extent measure(const struct view_model *m)
{
	struct extent e = {0};
	char buf[LAYOUT_NUMBER_ROOM];
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		const struct view_gpu *g = view_gpu(m, i);
		label_of(m, i, buf);
		e.label = wider(e.label, strlen(buf));
		e.done = wider(e.done, strlen(layout_number(g->completed, buf)));
		e.failed = wider(e.failed, strlen(layout_number(g->failed, buf)));
		e.name = wider(e.name, g->name ? display_width(g->name, strlen(g->name)) : 0);
		e.memory = e.memory || (g->memory_total_bytes > 0 && g->memory_used_bytes >= 0);
		e.load = e.load || g->utilization_percent >= 0;
		e.running = e.running || g->since_ns >= 0 || g->task || g->error;
	}
	return e;
}

/* ---- Which columns ---------------------------------------------------------------- */

/* Adds a column, or makes one wider, if that leaves `keep` columns free. */
static bool take(struct column_plan *p, enum gpu_column c, size_t width, size_t keep)
{
	size_t cost = width + (p->widths[c] ? 0 : p->gap);
	if (p->left < cost + keep)
		return false;
	p->left -= cost;
	p->widths[c] += width;
	return true;
}

static void take_bar(struct column_plan *p, enum gpu_column c, size_t *bar, size_t width, size_t keep)
{
	size_t more = width - *bar + (*bar ? 0 : 1);
	if (p->widths[c] && take(p, c, more, keep))
		*bar = width;
}

/* From the most to the least important column; the task gets the rest. */
static struct column_plan make_plan(const struct extent *e, size_t width, bool aside)
{
	struct column_plan p = {.gap = aside ? 1 : 2, .left = width};
	size_t keep = aside ? 0 : width < 60 ? 10 + p.gap : 26;
	p.widths[GPU] = aside ? e->label : wider(e->label, 3);
	p.left -= p.widths[GPU] < p.left ? p.widths[GPU] : p.left;
	p.words = !aside && width >= 36;
	take(&p, STATUS, p.words ? 12 : 1, 0);
	if (e->running)
		take(&p, TIME, 7, keep);
	take(&p, DONE, wider(e->done, 4), keep);
	if (e->load)
		take(&p, LOAD, 4, keep);
	take(&p, FAILED, wider(e->failed, width < 100 ? 4 : 6), aside ? 10 + p.gap : keep);
	if (e->memory)
		take(&p, MEMORY, 4, keep);
	take_bar(&p, MEMORY, &p.memory_bar, 4, aside ? 16 : keep);
	take_bar(&p, LOAD, &p.load_bar, 4, aside ? 16 : keep);
	if (p.memory_bar && take(&p, MEMORY, 14, keep + 10))
		p.amounts = true;
	take_bar(&p, MEMORY, &p.memory_bar, 8, keep + 14 + (e->load ? 4 : 0));
	take_bar(&p, LOAD, &p.load_bar, 8, keep + 14);
	if (e->name)
		take(&p, NAME, e->name < 24 ? e->name : 24, keep + 24);
	if (e->running && p.left >= 10 + p.gap)
		take(&p, TASK, p.left - p.gap, 0);
	return p;
}

/* ---- One cell ---------------------------------------------------------------------- */

static void write_left(struct text *t, bool color, enum ink ink, const char *words, size_t width)
{
	ink_begin(t, color, ink);
	display_append_padded(t, words, strlen(words), width);
	ink_end(t, color, ink);
}

static void write_right(struct text *t, bool color, enum ink ink, const char *words, size_t width)
{
	size_t used = display_width(words, strlen(words));
	ink_spaces(t, used < width ? width - used : 0);
	ink_begin(t, color, ink);
	display_append(t, words, strlen(words), width);
	ink_end(t, color, ink);
}

static size_t common_prefix(const char *a, const char *b)
{
	size_t n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* The word at which the task begins to differ from all other rows; 0: at the start. */
static size_t difference(const struct view_model *m, size_t row)
{
	const char *task = view_gpu(m, row)->task;
	size_t at = 0;
	for (size_t i = 0; task && i < view_num_gpus(m); i++) {
		const char *other = view_gpu(m, i)->task;
		size_t n = i != row && other ? common_prefix(task, other) : 0;
		/* Identical commands have no difference. */
		at = n > at && task[n] ? n : at;
	}
	return task ? display_word_start(task, at) : 0;
}

/* For tasks with a common beginning, shows the difference: "python t… --seed 7". Returns the columns used. */
static size_t write_distinct(struct text *t, const char *task, size_t from, size_t room)
{
	size_t head = room / 4;
	if (from == 0 || display_width(task, strlen(task)) <= room || display_width(task, from) + room / 3 < room)
		return display_append(t, task, strlen(task), room);
	size_t tail = display_width(task + from, strlen(task + from));
	if (tail + head < room)
		head = room - tail;
	size_t used = display_append(t, task, from, head);
	return used + display_append(t, task + from, strlen(task + from), room - used);
}

static void write_task(struct text *t, const struct view_model *m, size_t row, bool color, size_t width)
{
	const struct view_gpu *g = view_gpu(m, row);
	char more[32] = "", id[32] = "";
	if (g->status == VIEW_GPU_ERROR && g->error) {
		write_left(t, color, INK_RED, g->error, width);
		return;
	}
	if (g->num_tasks > 1)
		snprintf(more, sizeof(more), " +%d", g->num_tasks - 1);
	if (g->task_id)
		snprintf(id, sizeof(id), "#%" PRIu64 " ", view_id_number(g->task_id));
	size_t beside = strlen(more) + strlen(id), room = beside < width ? width - beside : 0;
	ink_words(t, color, INK_DIM, room ? id : "");
	size_t used = room ? strlen(id) : 0;
	if (g->task_name && *g->task_name)
		used += display_append(t, g->task_name, strlen(g->task_name), room ? room : width);
	else if (g->task)
		used += write_distinct(t, g->task, difference(m, row), room ? room : width);
	if (room) {
		ink_words(t, color, INK_DIM, more);
		used += strlen(more);
	}
	ink_spaces(t, width - used);
}

static void write_time(struct text *t, const struct view_gpu *g, const struct layout_options *o, size_t width)
{
	char buf[UNITS_ROOM] = "";
	if (g->since_ns >= 0 && o->now_ns >= (uint64_t)g->since_ns)
		layout_time(o->now_ns - (uint64_t)g->since_ns, buf);
	write_right(t, o->color, INK_PLAIN, buf, width);
}

static void write_percent(struct text *t, bool color, double fraction, size_t bar, size_t width)
{
	char buf[16] = "";
	if (fraction < 0) {
		ink_spaces(t, width);
		return;
	}
	if (bar) {
		ink_bar(t, color, INK_PLAIN, fraction, bar);
		ink_spaces(t, 1);
		width -= bar + 1;
	}
	snprintf(buf, sizeof(buf), "%d%%", (int)(fraction * 100 + 0.5));
	write_right(t, color, INK_PLAIN, buf, width);
}

static void write_memory(struct text *t, const struct view_gpu *g, const struct column_plan *p, bool color)
{
	bool known = g->memory_total_bytes > 0 && g->memory_used_bytes >= 0;
	double fraction = known ? (double)g->memory_used_bytes / (double)g->memory_total_bytes : -1;
	size_t amount = p->amounts ? 14 : 0;
	char buf[32] = "";
	write_percent(t, color, fraction, p->memory_bar, p->widths[MEMORY] - amount);
	if (!amount)
		return;
	if (known)
		snprintf(buf, sizeof(buf), "%.1f/%.0f GiB", (double)g->memory_used_bytes / (double)UNITS_GB,
			(double)g->memory_total_bytes / (double)UNITS_GB);
	write_right(t, color, INK_DIM, buf, amount);
}

/* The same word as for jobs; the JSON of gpuq web keeps "processing". */
static const char *status_words(enum view_gpu_status status)
{
	return status == VIEW_GPU_PROCESSING ? "running" : view_gpu_status_name(status);
}

static void write_cell(struct text *t, const struct view_model *m, size_t i, enum gpu_column c,
	const struct column_plan *p, const struct layout_options *o)
{
	const struct view_gpu *g = view_gpu(m, i);
	char buf[LAYOUT_NUMBER_ROOM];
	size_t width = p->widths[c];
	switch (c) {
	case GPU:
		label_of(m, i, buf);
		write_right(t, o->color, INK_PLAIN, buf, width);
		break;
	case NAME:
		write_left(t, o->color, INK_DIM, g->name ? g->name : "", width);
		break;
	case STATUS:
		write_left(t, o->color, (enum ink)palette_of_gpu(g->status),
			p->words ? status_words(g->status) : palette_sign_of_gpu(g->status), width);
		break;
	case TASK:
		write_task(t, m, i, o->color, width);
		break;
	case TIME:
		write_time(t, g, o, width);
		break;
	case DONE:
		write_right(t, o->color, INK_PLAIN, layout_number(g->completed, buf), width);
		break;
	case FAILED:
		write_right(t, o->color, g->failed ? INK_RED : INK_DIM, layout_number(g->failed, buf), width);
		break;
	case MEMORY:
		write_memory(t, g, p, o->color);
		break;
	case LOAD:
		write_percent(t, o->color, g->utilization_percent / 100.0, p->load_bar, width);
		break;
	case COLUMNS:
		break;
	}
}

/* ---- Lines --------------------------------------------------------------------------- */

static void write_title(struct text *t, enum gpu_column c, const struct column_plan *p)
{
	static const char *const titles[COLUMNS] = {
		"GPU", "NAME", "STATUS", "TASK", "TIME", "DONE", "FAILED", "MEMORY", "UTIL"};
	const char *title = titles[c];
	size_t width = p->widths[c];
	if (strlen(title) > width)
		title = c == FAILED && width >= 4 ? "FAIL" : c == MEMORY ? "MEM" : "";
	if (c == NAME || c == STATUS || c == TASK || (c == MEMORY && p->memory_bar) || (c == LOAD && p->load_bar))
		write_left(t, false, INK_PLAIN, title, width);
	else
		write_right(t, false, INK_PLAIN, title, width);
}

static void write_titles(struct text *t, const struct column_plan *p)
{
	for (size_t c = 0; c < COLUMNS; c++) {
		if (!p->widths[c])
			continue;
		ink_spaces(t, c ? p->gap : 0);
		write_title(t, (enum gpu_column)c, p);
	}
}

static void write_row(struct text *t, const struct view_model *m, size_t i, const struct column_plan *p,
	const struct layout_options *o)
{
	for (size_t c = 0; c < COLUMNS; c++) {
		if (!p->widths[c])
			continue;
		ink_spaces(t, c ? p->gap : 0);
		write_cell(t, m, i, (enum gpu_column)c, p, o);
	}
}

/* No trailing blanks. */
static void end_line(struct text *t)
{
	while (t->length && t->data[t->length - 1] == ' ')
		t->length--;
	text_append_char(t, '\n');
}

static size_t write_table(struct text *t, const struct view_model *m, const struct layout_options *o, bool titles)
{
	struct extent e = measure(m);
	struct column_plan p = make_plan(&e, o->width - 1, false);
	if (titles) {
		ink_begin(t, o->color, INK_DIM);
		write_titles(t, &p);
		ink_end(t, o->color, INK_DIM);
		end_line(t);
	}
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		write_row(t, m, i, &p, o);
		end_line(t);
	}
	return view_num_gpus(m) + titles;
}

/* Number of GPUs by status: "● 58 running   ○ 4 idle   ✗ 2 error". */
static void write_legend(struct text *t, const struct view_model *m, const struct layout_options *o)
{
	static const enum view_gpu_status order[VIEW_GPU_STATUSES] = {
		VIEW_GPU_PROCESSING, VIEW_GPU_INITIALIZING, VIEW_GPU_IDLE, VIEW_GPU_FINISHED, VIEW_GPU_ERROR};
	size_t counts[VIEW_GPU_STATUSES] = {0}, used = 0;
	for (size_t i = 0; i < view_num_gpus(m); i++)
		counts[view_gpu(m, i)->status]++;
	for (size_t i = 0; i < VIEW_GPU_STATUSES; i++) {
		char words[64];
		if (!counts[order[i]])
			continue;
		size_t size =
			(size_t)snprintf(words, sizeof(words), " %zu %s", counts[order[i]], status_words(order[i]));
		if (used + (used ? BETWEEN : 0) + 1 + size > o->width - 1)
			break;
		ink_spaces(t, used ? BETWEEN : 0);
		ink_words(t, o->color, (enum ink)palette_of_gpu(order[i]), palette_sign_of_gpu(order[i]));
		text_append_string(t, words);
		used += (used ? BETWEEN : 0) + 1 + size;
	}
	text_append_char(t, '\n');
}

/* Tables side by side. */
struct grid {
	size_t tables, rows;
	size_t shown; /* GPUs shown; the rest is only counted */
	bool titles;
};

static struct grid make_grid(size_t gpus, size_t label, size_t width, size_t lines)
{
	struct grid g = {.titles = lines > 6};
	g.rows = lines - g.titles;
	size_t least = label + 2, most = (width + BETWEEN) / (least + BETWEEN);
	if (most == 0)
		most = 1;
	g.tables = (gpus + g.rows - 1) / g.rows;
	g.shown = gpus;
	if (g.tables > most) {
		g.tables = most;
		g.shown = g.tables * g.rows - 1;
	}
	/* Use only as many rows as needed, so that the tables have equal lengths. */
	size_t places = g.shown + (g.shown < gpus);
	g.rows = (places + g.tables - 1) / g.tables;
	return g;
}

static void write_grid_line(struct text *t, const struct view_model *m, const struct layout_options *o,
	const struct grid *g, const struct column_plan *p, size_t row)
{
	for (size_t k = 0; k < g->tables; k++) {
		size_t i = k * g->rows + row;
		if (i > g->shown || (i == g->shown && g->shown == view_num_gpus(m)))
			break;
		if (k)
			ink_words(t, o->color, INK_DIM, " │ ");
		if (i < g->shown)
			write_row(t, m, i, p, o);
		else
			text_appendf(t, "+%zu", view_num_gpus(m) - g->shown);
	}
	end_line(t);
}

static size_t write_grid(struct text *t, const struct view_model *m, const struct layout_options *o, size_t lines)
{
	struct extent e = measure(m);
	size_t width = o->width - 1;
	write_legend(t, m, o);
	if (lines < 2)
		return 1;
	struct grid g = make_grid(view_num_gpus(m), e.label, width, lines - 1);
	struct column_plan p = make_plan(&e, (width - (g.tables - 1) * BETWEEN) / g.tables, true);
	if (g.titles) {
		ink_begin(t, o->color, INK_DIM);
		for (size_t k = 0; k < g.tables; k++) {
			if (k)
				text_append_string(t, " │ ");
			write_titles(t, &p);
		}
		ink_end(t, o->color, INK_DIM);
		end_line(t);
	}
	for (size_t row = 0; row < g.rows; row++)
		write_grid_line(t, m, o, &g, &p, row);
	return 1 + g.titles + g.rows;
}

size_t gpu_table_append(struct text *t, const struct view_model *m, const struct layout_options *o, size_t lines)
{
	size_t gpus = view_num_gpus(m);
	if (gpus <= lines)
		return write_table(t, m, o, gpus < lines);
	return write_grid(t, m, o, lines);
}
