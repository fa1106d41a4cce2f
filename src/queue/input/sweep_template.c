/* SPDX-License-Identifier: MIT */
/*
 * The words of a sweep's command. A value with characters that are special to a shell must not become code. Such a
 * value is allowed only in a command of several words, and there only in a word whose own text is plain and that does
 * not follow an option like `-c`, which announces code.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/code_place.h"
#include "base/display.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "queue/input/sweep_private.h"

static struct sweep_axis *find_name(const struct sweep *s, const char *name, size_t size, size_t *ret_column)
{
	for (size_t i = 0; i < s->num_axes; i++)
		for (size_t k = 0; k < s->axes[i].num_names; k++)
			if (strlen(s->axes[i].names[k]) == size && memcmp(s->axes[i].names[k], name, size) == 0) {
				*ret_column = k;
				return &s->axes[i];
			}
	return NULL;
}

static int add_piece(struct sweep_word *w, const struct sweep_piece *piece)
{
	if (!piece->axis && piece->size == 0)
		return 0;
	if (array_reserve(w->pieces, &w->capacity, w->count + 1) < 0)
		return -ENOMEM;
	w->pieces[w->count++] = *piece;
	w->has_values |= piece->axis != NULL;
	return 0;
}

/* Splits a word at each {NAME} that is known. "${NAME}" is left to the shell. */
static int compile_word(const struct sweep *s, const char *text, struct sweep_word *ret)
{
	const char *from = text;
	int r = 0;
	for (const char *p = text; r == 0 && (p = strchr(p, '{')) != NULL;) {
		size_t size = strcspn(p + 1, "{}"), column;
		struct sweep_axis *a =
			p[1 + size] == '}' && (p == text || p[-1] != '$') ? find_name(s, p + 1, size, &column) : NULL;
		if (!a) {
			p++;
			continue;
		}
		r = add_piece(ret, &(struct sweep_piece){.text = from, .size = (size_t)(p - from)});
		if (r == 0)
			r = add_piece(ret, &(struct sweep_piece){.axis = a, .column = column});
		from = p = p + size + 2;
	}
	return r < 0 ? r : add_piece(ret, &(struct sweep_piece){.text = from, .size = strlen(from)});
}

/* ---- Where values must be plain ------------------------------------------------------- */

static bool may_be_code(const struct sweep *s, char **words, size_t i)
{
	const struct sweep_word *w = &s->words[i];
	if (s->num_words == 1 || i == 0)
		return true;
	for (size_t k = 0; k < w->count; k++)
		if (!w->pieces[k].axis && !shell_is_plain(w->pieces[k].text, w->pieces[k].size))
			return true;
	return place_is_code((const char *const *)words, i);
}

static int check_values(const struct sweep_piece *piece, struct gd_error *err)
{
	const struct sweep_axis *a = piece->axis;
	char quote[DISPLAY_QUOTE_ROOM];
	for (size_t row = 0; row < a->num_rows; row++) {
		const char *value = a->values[row * a->num_names + piece->column];
		if (!*value || !shell_is_plain(value, strlen(value)))
			return error_set(err, -EINVAL,
				"value '%s' of '%s' would become part of a script; pass the command as separate words, with {%s} outside "
				"the script",
				display_quote(value, quote), a->names[piece->column], a->names[piece->column]);
	}
	return 0;
}

/* Values may begin with more characters than names of files may: "-1", "[1,2]". */
static int check_first(const struct sweep_piece *piece, struct gd_error *err)
{
	const struct sweep_axis *a = piece->axis;
	char quote[DISPLAY_QUOTE_ROOM];
	for (size_t row = 0; row < a->num_rows; row++) {
		const char *value = a->values[row * a->num_names + piece->column];
		if (*value == '|' || *value == '@')
			return error_set(err, -EINVAL,
				"value '%s' of '%s' begins with '%c', which programs may interpret; "
				"put text before it, such as ./{%s} or --%s={%s}",
				display_quote(value, quote), a->names[piece->column], *value, a->names[piece->column],
				a->names[piece->column], a->names[piece->column]);
	}
	return 0;
}

static int check_word(const struct sweep *s, char **words, size_t i, struct gd_error *err)
{
	const struct sweep_word *w = &s->words[i];
	bool is_code = may_be_code(s, words, i), is_first = true;
	int r = 0;
	for (size_t k = 0; r == 0 && k < w->count; k++) {
		/* A value also begins a word after a blank or a quote, or after other values, which may be empty. */
		const struct sweep_piece *before = k > 0 ? &w->pieces[k - 1] : NULL;
		if (before && !before->axis)
			is_first = !shell_is_plain(before->text + before->size - 1, 1);
		if (w->pieces[k].axis && is_code)
			r = check_values(&w->pieces[k], err);
		if (r == 0 && w->pieces[k].axis && is_first)
			r = check_first(&w->pieces[k], err);
	}
	return r;
}

static bool is_used(const struct sweep *s, const struct sweep_axis *a, size_t column)
{
	for (size_t i = 0; i < s->num_words; i++)
		for (size_t k = 0; k < s->words[i].count; k++)
			if (s->words[i].pieces[k].axis == a && s->words[i].pieces[k].column == column)
				return true;
	return false;
}

static int check_use(const struct sweep *s, struct gd_error *err)
{
	for (size_t i = 0; i < s->num_axes; i++)
		for (size_t k = 0; k < s->axes[i].num_names; k++)
			if (!is_used(s, &s->axes[i], k))
				return error_set(err, -EINVAL, "parameter '%s': the command does not contain {%s}",
					s->axes[i].names[k], s->axes[i].names[k]);
	return 0;
}

int sweep_compile(struct sweep *s, char **words, size_t num_words, struct gd_error *err)
{
	s->words = calloc(num_words, sizeof(*s->words));
	if (!s->words)
		return error_set(err, -ENOMEM, "cannot fill the parameters into the command: out of memory");
	s->num_words = num_words;
	for (size_t i = 0; i < num_words; i++)
		if (compile_word(s, words[i], &s->words[i]) < 0)
			return error_set(err, -ENOMEM, "cannot fill the parameters into the command: out of memory");
	int r = check_use(s, err);
	for (size_t i = 0; r == 0 && i < num_words; i++)
		r = check_word(s, words, i, err);
	return r;
}
