/* SPDX-License-Identifier: MIT */
/* Pages that cover the list: the keys, why a job waits, and a job's log. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/utf8.h"
#include "view/top/top.h"

/* ---- A page of text --------------------------------------------------------------------------- */

#define NAME_COLUMNS 12 /* of top_put_details() */
#define MAX_NAME     32 /* bytes of a name with its spaces */

/* The number of bytes of a line that fit; breaks after a space if there is one in the last half. */
static size_t fitting(const char *line, size_t size, size_t columns)
{
	size_t end = 0, space = 0;
	if (display_width(line, size) <= columns)
		return size;
	while (end < size) {
		size_t n = utf8_sequence(line + end, size - end);
		n = n ? n : 1;
		if (display_width(line, end + n) > columns)
			break;
		end += n;
		if (line[end - 1] == ' ' && end > columns / 2)
			space = end;
	}
	return space ? space : end ? end : 1;
}

/* The column of the value after a name and spaces, or 0. */
static size_t value_column(const char *line, size_t size)
{
	size_t at = strspn(line, " ");
	while (at + 1 < size && !(line[at] == ' ' && line[at + 1] == ' '))
		at++;
	at += strspn(line + at, " ");
	if (at < size && at < MAX_NAME)
		return display_width(line, at);
	return size > NAME_COLUMNS && line[NAME_COLUMNS - 1] == ' ' ? NAME_COLUMNS : 0;
}

/* Wraps long lines; if a line begins with a name, the next lines are aligned with its value. */
static void wrap_line(struct text *out, const char *line, size_t size, size_t columns)
{
	size_t hang = line[0] == ' ' ? strspn(line, " ") : value_column(line, size);
	if (hang > columns / 2)
		hang = 0;
	size_t n = fitting(line, size, columns);
	for (;;) {
		text_append(out, line, n);
		text_append_char(out, '\n');
		line += n;
		size -= n;
		if (size == 0)
			break;
		text_appendf(out, "%*s", (int)hang, "");
		n = fitting(line, size, columns - hang);
	}
}

static void wrap_page(struct text *out, const char *text, int columns)
{
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		wrap_line(out, p, n, (size_t)(columns > 8 ? columns : 8));
		p += n + (p[n] == '\n');
	}
}

static const char *next_line(const char *p, char *out, size_t size)
{
	size_t n = strcspn(p, "\n");
	snprintf(out, size, "%.*s", (int)n, p);
	return p + n + (p[n] == '\n');
}

void top_draw_page(struct top *t, struct screen *s)
{
	cleanup_(text_finish) struct text page = {0};
	char line[4096];
	wrap_page(&page, text_string(&t->page), s->columns - 4);
	const char *text = text_string(&page);
	int lines = 0, width = 20;
	for (const char *p = text; *p; lines++) {
		p = next_line(p, line, sizeof(line));
		int columns = (int)display_width(line, strlen(line));
		width = columns + 4 > width ? columns + 4 : width;
	}
	width = width < s->columns ? width : s->columns;
	int height = lines + 2 < s->rows ? lines + 2 : s->rows;
	int shown = height - 2 > 0 ? height - 2 : 0, hidden = lines - shown;
	if ((int)t->page_first > hidden)
		t->page_first = (size_t)hidden;
	int top = (s->rows - height) / 2, left = (s->columns - width) / 2;
	screen_box(s, top, left, width, height, t->page_title,
		hidden > 0 ? "↑ ↓ scroll, any other key: back" : "any key: back");
	const char *p = text;
	for (int i = 0; *p; i++) {
		p = next_line(p, line, sizeof(line));
		int row = i - (int)t->page_first;
		if (row >= 0 && row < shown)
			screen_put(s, top + 1 + row, left + 2, width - 4, SCREEN_PLAIN, line);
	}
}

/* ---- A log --------------------------------------------------------------------------------------- */

static uint64_t log_end(const struct top *t)
{
	return t->log.num_dropped + log_tail_lines(&t->log);
}

static void log_scroll(struct top *t, int64_t by)
{
	uint64_t first = t->log_first, low = t->log.num_dropped, end = log_end(t);
	if (by < 0)
		first = first > low + (uint64_t)-by ? first - (uint64_t)-by : low;
	else
		first += (uint64_t)by;
	t->log_follows = first + (uint64_t)(t->log_rows > 0 ? t->log_rows : 1) >= end && by > 0;
	t->log_first = first < end ? first : end ? end - 1 : 0;
}

void top_log_key(struct top *t, int key)
{
	int page = t->log_rows > 1 ? t->log_rows - 1 : 1;
	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		log_scroll(t, -1);
		break;
	case TOP_KEY_DOWN:
	case 'j':
		log_scroll(t, 1);
		break;
	case TOP_KEY_PAGE_UP:
		log_scroll(t, -page);
		break;
	case TOP_KEY_PAGE_DOWN:
	case ' ':
		log_scroll(t, page);
		break;
	case TOP_KEY_HOME:
	case 'g':
		t->log_first = t->log.num_dropped;
		t->log_follows = false;
		break;
	case TOP_KEY_END:
	case 'G':
	case 'F':
		t->log_follows = true;
		break;
	case TOP_KEY_RIGHT:
		t->log_left += t->log_wraps ? 0 : 8;
		break;
	case TOP_KEY_LEFT:
		t->log_left -= t->log_left >= 8 ? 8 : t->log_left;
		break;
	case 'w':
		t->log_wraps = !t->log_wraps;
		t->log_left = 0;
		break;
	case 'q':
	case 'l':
	case TOP_KEY_ESCAPE:
	case TOP_KEY_F10:
		t->mode = TOP_LIST;
		t->request = TOP_CLOSE_LOG;
		break;
	default:
		break;
	}
}

/* The number of rows of a wrapped line; an empty line takes one. */
static int rows_of(const struct top *t, const struct text *line, int columns)
{
	int width = (int)display_width(text_string(line), line->length);
	return t->log_wraps && width > columns ? (width + columns - 1) / columns : 1;
}

/* The first line to show so that the lines up to the end fill the rows. */
static uint64_t first_when_following(const struct top *t, int rows, int columns)
{
	uint64_t at = log_end(t);
	while (at > t->log.num_dropped) {
		cleanup_(text_finish) struct text line = {0};
		log_tail_line(&t->log, (size_t)(at - 1 - t->log.num_dropped), &line);
		rows -= rows_of(t, &line, columns);
		if (rows < 0)
			break;
		at--;
	}
	/* A last line that is higher than the screen is shown from its beginning. */
	return at == log_end(t) && at > t->log.num_dropped ? at - 1 : at;
}

/* Skips the first columns of a line that is safe to show. */
static const char *skip_columns(const char *p, int columns)
{
	while (*p && columns > 0) {
		size_t n = 1;
		while (((unsigned char)p[n] & 0xc0) == 0x80)
			n++;
		columns -= (int)display_width(p, n);
		p += n;
	}
	return p;
}

/* One piece of a wrapped line: as much as fits, without an ellipsis. Returns its bytes. */
static size_t piece_of(const char *p, int columns)
{
	size_t at = 0;
	while (p[at]) {
		size_t n = 1;
		while (((unsigned char)p[at + n] & 0xc0) == 0x80)
			n++;
		columns -= (int)display_width(p + at, n);
		if (columns < 0)
			break;
		at += n;
	}
	return at;
}

static int draw_line(const struct top *t, struct screen *s, int row, int end, const struct text *line)
{
	const char *p = text_string(line);
	char piece[4096];
	if (!t->log_wraps) {
		screen_put(s, row, 0, s->columns, SCREEN_PLAIN, skip_columns(p, t->log_left));
		return row + 1;
	}
	do {
		size_t n = piece_of(p, s->columns);
		snprintf(piece, sizeof(piece), "%.*s", (int)n, p);
		screen_put(s, row++, 0, s->columns, SCREEN_PLAIN, piece);
		p += n ? n : strlen(p);
	} while (*p && row < end);
	return row;
}

static void draw_log_title(const struct top *t, struct screen *s)
{
	const struct view_job *j = view_find_job(t->model, t->log_job);
	const char *how = t->log_follows ? "following" : "stopped, F: follow";
	screen_fill(s, 0, 0, s->columns, SCREEN_REVERSE, " ");
	int width = (int)strlen(how) + 1, at = 1;
	at += screen_putf(s, 0, at, s->columns - at, SCREEN_REVERSE | SCREEN_BOLD, "log of job %" PRIu64,
		view_id_number(t->log_job));
	if (j)
		at += screen_putf(s, 0, at, s->columns - at, SCREEN_REVERSE, ", %s", view_job_state_name(j->state)) + 2;
	if (s->columns - width > at) {
		screen_put(s, 0, s->columns - width, width, SCREEN_REVERSE | (t->log_follows ? 0 : SCREEN_BOLD), how);
		screen_put(s, 0, at, s->columns - width - at - 2, SCREEN_REVERSE | SCREEN_DIM,
			j ? j->name ? j->name : j->command : "");
	}
}

void top_draw_log(struct top *t, struct screen *s)
{
	int end = s->rows - 1, row = 1;
	t->log_rows = end - row;
	draw_log_title(t, s);
	if (t->log_follows)
		t->log_first = first_when_following(t, t->log_rows, s->columns);
	if (t->log_first < t->log.num_dropped)
		t->log_first = t->log.num_dropped;
	for (uint64_t at = t->log_first; at < log_end(t) && row < end; at++) {
		cleanup_(text_finish) struct text line = {0};
		log_tail_line(&t->log, (size_t)(at - t->log.num_dropped), &line);
		row = draw_line(t, s, row, end, &line);
	}
	if (log_end(t) == 0 && row < end)
		screen_put(s, row, 1, s->columns - 1, SCREEN_DIM, "no output yet");
	if (t->message[0])
		screen_put(s, s->rows - 1, 1, s->columns - 1, SCREEN_RED | SCREEN_BOLD, t->message);
	else
		screen_putf(s, s->rows - 1, 1, s->columns - 1, SCREEN_DIM,
			"↑ ↓ PgUp PgDn  g first  F follow  w %s  q back%s", t->log_wraps ? "cut" : "wrap",
			t->log.cut ? "   (only the end of a long log)" : "");
}
