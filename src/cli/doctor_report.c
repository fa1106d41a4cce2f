/* SPDX-License-Identifier: MIT */
/* Findings of `gpuq doctor` and `gpuq slurm check`, as a report or as JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "base/json_put.h"
#include "base/terminal.h"
#include "cli/doctor_parts.h"
#include "cli/exit_code.h"
#include "cli/say.h"

/* ---- Findings ------------------------------------------------------------------------- */

/* Reports get pasted: they must not reveal the home directory. */
static void append_without_home(struct text *t, const char *words)
{
	const char *home = getenv("HOME");
	size_t size = home ? strlen(home) : 0;
	while (size > 1) {
		const char *at = strstr(words, home);
		bool begins = at && (at == words || strchr(" '\"=:", at[-1]));
		bool ends = at && (at[size] == '\0' || strchr("/' :,;", at[size]));
		if (!at)
			break;
		text_append(t, words, (size_t)(at - words));
		text_append_string(t, begins && ends ? "~" : home);
		words = at + size;
	}
	text_append_string(t, words);
}

void doctor_add(
	struct doctor *d, enum doctor_level level, const char *name, const char *advice, const char *format, ...)
{
	cleanup_(text_finish) struct text raw = {0};
	cleanup_(text_finish) struct text words = {0};
	cleanup_(text_finish) struct text advised = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&raw, format, args);
	va_end(args);
	append_without_home(&words, text_string(&raw));
	if (advice)
		append_without_home(&advised, advice);
	bool failed = text_error(&raw) || text_error(&words) || text_error(&advised);
	if (failed || array_reserve(d->findings, &d->capacity, d->count + 1) < 0) {
		d->incomplete = true;
		return;
	}
	d->findings[d->count++] = (struct doctor_finding){.section = d->section,
		.name = name,
		.level = level,
		.words = text_take(&words),
		.advice = advice ? text_take(&advised) : NULL};
}

static size_t count_level(const struct doctor *d, enum doctor_level level)
{
	size_t n = 0;
	for (size_t i = 0; i < d->count; i++)
		n += d->findings[i].level == level;
	return n;
}

/* ---- The report ------------------------------------------------------------------------- */

static const char *const level_names[] = {[DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_PROBLEM] = "problem"};
static const enum terminal_color level_colors[] = {
	[DOCTOR_OK] = TERMINAL_GREEN, [DOCTOR_NOTE] = TERMINAL_YELLOW, [DOCTOR_PROBLEM] = TERMINAL_RED};

static void put_finding(struct text *t, const struct doctor_finding *f, bool color)
{
	text_append_string(t, "  ");
	terminal_paint(t, color, level_colors[f->level], level_names[f->level]);
	text_appendf(t, "%*s%-15s ", (int)(9 - strlen(level_names[f->level])), "", f->name);
	display_append(t, f->words, strlen(f->words), DISPLAY_ALL);
	text_append_char(t, '\n');
	if (!f->advice)
		return;
	text_appendf(t, "%27s→ ", "");
	display_append(t, f->advice, strlen(f->advice), DISPLAY_ALL);
	text_append_char(t, '\n');
}

static void put_report(const struct doctor *d, struct text *t)
{
	bool color = terminal_has_color();
	const char *section = NULL;
	for (size_t i = 0; i < d->count; i++) {
		const struct doctor_finding *f = &d->findings[i];
		if (f->section != section) {
			text_append_string(t, section ? "\n" : "");
			terminal_paint(t, color, TERMINAL_BOLD, f->section);
			text_append_char(t, '\n');
		}
		section = f->section;
		put_finding(t, f, color);
	}
	size_t problems = count_level(d, DOCTOR_PROBLEM), notes = count_level(d, DOCTOR_NOTE);
	text_appendf(
		t, "\n%zu problem%s, %zu note%s\n", problems, problems == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
}

static void put_json(const struct doctor *d, struct text *t)
{
	json_open(t, NULL, '{');
	json_put_string(t, "version", GD_VERSION);
	json_put_int(t, "problems", (int64_t)count_level(d, DOCTOR_PROBLEM));
	json_put_int(t, "notes", (int64_t)count_level(d, DOCTOR_NOTE));
	json_open(t, "findings", '[');
	for (size_t i = 0; i < d->count; i++) {
		const struct doctor_finding *f = &d->findings[i];
		json_open(t, NULL, '{');
		json_put_string(t, "section", f->section);
		json_put_string(t, "name", f->name);
		json_put_string(t, "level", level_names[f->level]);
		json_put_any(t, "words", f->words, strlen(f->words));
		if (f->advice)
			json_put_any(t, "advice", f->advice, strlen(f->advice));
		else
			json_put_null(t, "advice");
		json_close(t, '}');
	}
	json_close(t, ']');
	json_close(t, '}');
	text_append_char(t, '\n');
}

int doctor_report(struct doctor *d)
{
	cleanup_(text_finish) struct text t = {0};
	if (d->json)
		put_json(d, &t);
	else
		put_report(d, &t);
	int code = count_level(d, DOCTOR_PROBLEM) ? EXIT_WORK_FAILED : EXIT_DONE;
	if (d->incomplete || text_error(&t)) {
		say("cannot check: out of memory");
		code = EXIT_WORK_FAILED;
	}
	fputs(text_string(&t), stdout);
	for (size_t i = 0; i < d->count; i++) {
		free(d->findings[i].words);
		free(d->findings[i].advice);
	}
	free(d->findings);
	d->findings = NULL;
	d->count = d->capacity = 0;
	return code;
}
