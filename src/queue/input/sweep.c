/* SPDX-License-Identifier: MIT */
#include "queue/input/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "queue/input/sweep_private.h"

static int no_memory(struct gd_error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}

void sweep_axis_finish(struct sweep_axis *a)
{
	for (size_t i = 0; i < a->num_names; i++)
		free(a->names[i]);
	for (size_t i = 0; i < a->num_names * a->num_rows; i++)
		free(a->values[i]);
	free(a->names);
	free(a->values);
	*a = (struct sweep_axis){0};
}

void sweep_finish(struct sweep *s)
{
	for (size_t i = 0; i < s->num_axes; i++)
		sweep_axis_finish(&s->axes[i]);
	for (size_t i = 0; i < s->num_words; i++)
		free(s->words[i].pieces);
	free(s->axes);
	free(s->words);
	text_finish(&s->scratch);
	*s = (struct sweep){0};
}

int sweep_axis_add(struct sweep_axis *a, char *value)
{
	if (!value || array_reserve(a->values, &a->values_capacity, a->num_rows + 1) < 0) {
		free(value);
		return -ENOMEM;
	}
	a->values[a->num_rows++] = value;
	return 0;
}

/* ---- Values on the command line ------------------------------------------------------- */

static bool read_number(const char **p, const char *end, uint64_t *ret)
{
	const char *s = *p;
	uint64_t n = 0;
	for (; s < end && *s >= '0' && *s <= '9' && s - *p < 18; s++)
		n = n * 10 + (uint64_t)(*s - '0');
	if (s == *p || (s < end && *s >= '0' && *s <= '9'))
		return false;
	*p = s;
	*ret = n;
	return true;
}

bool sweep_parse_range(const char *text, size_t size, uint64_t *ret_from, uint64_t *ret_to, uint64_t *ret_step)
{
	const char *p = text, *end = text + size;
	uint64_t from, to, step = 1;
	if (!read_number(&p, end, &from) || p == end || *p++ != '-' || !read_number(&p, end, &to))
		return false;
	if (p < end && (*p++ != ':' || !read_number(&p, end, &step) || step == 0))
		return false;
	*ret_from = from;
	*ret_to = to;
	*ret_step = step;
	return p == end;
}

/* "08-10" is 08, 09, 10. */
static int add_range(struct sweep_axis *a, const char *text, uint64_t from, uint64_t to, uint64_t step)
{
	int width = *text == '0' ? (int)strspn(text, "0123456789") : 1;
	uint64_t last = (to - from) / step;
	if (last >= SWEEP_MAX_JOBS - a->num_rows)
		return -ERANGE;
	for (uint64_t i = 0; i <= last; i++) {
		char *value = NULL;
		if (asprintf(&value, "%0*llu", width, (unsigned long long)(from + i * step)) < 0)
			value = NULL;
		if (sweep_axis_add(a, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_values(struct sweep_axis *a, const char *text, struct gd_error *err)
{
	for (;;) {
		size_t size = strcspn(text, ",");
		uint64_t from, to, step;
		int r;
		if (sweep_parse_range(text, size, &from, &to, &step)) {
			if (from > to)
				return error_set(err, -EINVAL, "%.*s is reversed", (int)size, text);
			r = add_range(a, text, from, to, step);
		} else if (a->num_rows >= SWEEP_MAX_JOBS) {
			r = -ERANGE;
		} else {
			r = sweep_axis_add(a, strndup(text, size));
		}
		if (r == -ERANGE)
			return error_set(err, -EINVAL, "more than %zu values", SWEEP_MAX_JOBS);
		if (r < 0)
			return no_memory(err);
		if (!text[size])
			return 0;
		text += size + 1;
	}
}

static bool is_name(const char *s, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
		if (!letter && (i == 0 || !((s[i] >= '0' && s[i] <= '9') || s[i] == '-' || s[i] == '.')))
			return false;
	}
	return size > 0;
}

int sweep_add_param(struct sweep *s, const char *text, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	size_t size = strcspn(text, "=");
	if (!is_name(text, size) || !text[size])
		return error_set(err, -EINVAL, "'%s': expected NAME=VALUE,VALUE…, like lr=0.1,0.01 or seed=1-5",
			display_quote(text, quote));
	if (array_reserve(s->axes, &s->axes_capacity, s->num_axes + 1) < 0)
		return no_memory(err);
	struct sweep_axis *a = &s->axes[s->num_axes++];
	*a = (struct sweep_axis){.names = calloc(1, sizeof(char *))};
	if (!a->names || !(a->names[0] = strndup(text, size)))
		return no_memory(err);
	a->num_names = 1;
	struct gd_error why;
	int r = add_values(a, text + size + 1, &why);
	return r < 0 ? error_set(err, r, "%s: %s", a->names[0], why.message) : 0;
}

int sweep_parse_array(const char *text, struct id_list *ret, struct gd_error *err)
{
	if (strchr(text, '%'))
		return error_set(err, -EINVAL,
			"'%s': a limit with %% is not supported; use --mem, --exclusive or --cpus to limit how many run at the same time",
			text);
	for (const char *p = text;; p++) {
		size_t size = strcspn(p, ",");
		const char *end = p;
		uint64_t from, to, step = 1;
		bool range = sweep_parse_range(p, size, &from, &to, &step);
		if (!range && read_number(&end, p + size, &from) && end == p + size)
			to = from;
		else if (!range || from > to)
			return error_set(err, -EINVAL, "'%s': expected indices, like 1-10, 1-10:2 or 1,3,7", text);
		for (uint64_t n = from; n <= to; n += step) {
			if (ret->count >= SWEEP_MAX_JOBS || n > INT32_MAX)
				return error_set(err, -EINVAL, "'%s': at most %zu indices, each at most %d", text,
					SWEEP_MAX_JOBS, INT32_MAX);
			if (id_list_add(ret, n) < 0)
				return no_memory(err);
		}
		p += size;
		if (!*p)
			break;
	}
	id_list_sort(ret);
	return 0;
}

/* ---- The product ---------------------------------------------------------------------- */

/* Merges all axes that have a single name into one axis, whose rows have a value of each. */
static int zip_axes(struct sweep *s, struct gd_error *err)
{
	struct sweep_axis zipped = {0};
	size_t kept = 0, n = 0, at = 0;
	for (size_t i = 0; i < s->num_axes; i++)
		n += s->axes[i].num_names == 1;
	if (n < 2)
		return error_set(err, -EINVAL, "--zip: nothing to pair; give at least two --param");
	const struct sweep_axis *first = NULL;
	for (size_t i = 0; i < s->num_axes; i++) {
		const struct sweep_axis *a = &s->axes[i];
		if (a->num_names != 1)
			continue;
		first = first ? first : a;
		if (a->num_rows != first->num_rows)
			return error_set(err, -EINVAL, "--zip: '%s' has %zu values and '%s' has %zu", first->names[0],
				first->num_rows, a->names[0], a->num_rows);
	}
	zipped.names = calloc(n, sizeof(char *));
	zipped.values = calloc(n * first->num_rows, sizeof(char *));
	if (!zipped.names || !zipped.values) {
		free(zipped.names);
		free(zipped.values);
		return no_memory(err);
	}
	zipped.num_names = n;
	zipped.num_rows = first->num_rows;
	for (size_t i = 0; i < s->num_axes; i++) {
		struct sweep_axis *a = &s->axes[i];
		if (a->num_names != 1) {
			s->axes[kept++] = *a;
			continue;
		}
		zipped.names[at] = take_ptr(a->names[0]);
		for (size_t row = 0; row < a->num_rows; row++)
			zipped.values[row * n + at] = take_ptr(a->values[row]);
		at++;
		sweep_axis_finish(a);
	}
	s->axes[kept++] = zipped;
	s->num_axes = kept;
	return 0;
}

static int check_names(const struct sweep *s, struct gd_error *err)
{
	for (size_t i = 0; i < s->num_axes; i++)
		for (size_t k = 0; k < s->axes[i].num_names; k++)
			for (size_t j = 0; j <= i; j++)
				for (size_t l = 0; l < (j < i ? s->axes[j].num_names : k); l++)
					if (strcmp(s->axes[i].names[k], s->axes[j].names[l]) == 0)
						return error_set(err, -EINVAL, "parameter '%s' is given twice",
							s->axes[i].names[k]);
	return 0;
}

int sweep_prepare(struct sweep *s, bool zip, char **words, size_t num_words, struct gd_error *err)
{
	int r = check_names(s, err);
	if (r == 0 && zip)
		r = zip_axes(s, err);
	if (r < 0)
		return r;
	s->count = 1;
	for (size_t i = 0; i < s->num_axes; i++) {
		size_t rows = s->axes[i].num_rows;
		if (rows > SWEEP_MAX_JOBS / s->count)
			return error_set(
				err, -EINVAL, "these parameters would create more than %zu jobs", SWEEP_MAX_JOBS);
		s->count *= rows;
	}
	return sweep_compile(s, words, num_words, err);
}

/* The row of this axis in combination i: the last axis varies fastest. */
static size_t row_of(const struct sweep *s, const struct sweep_axis *a, size_t i)
{
	for (size_t k = s->num_axes; k-- > 0 && &s->axes[k] != a;)
		i /= s->axes[k].num_rows;
	return i % a->num_rows;
}

void sweep_fill(struct sweep *s, size_t i, struct text *command)
{
	for (size_t w = 0; w < s->num_words; w++) {
		const struct sweep_word *word = &s->words[w];
		text_clear(&s->scratch);
		for (size_t p = 0; p < word->count; p++) {
			const struct sweep_piece *piece = &word->pieces[p];
			const struct sweep_axis *a = piece->axis;
			if (a)
				text_append_string(
					&s->scratch, a->values[row_of(s, a, i) * a->num_names + piece->column]);
			else
				text_append(&s->scratch, piece->text, piece->size);
		}
		if (w)
			text_append_char(command, ' ');
		if (s->num_words == 1)
			text_append(command, s->scratch.data, s->scratch.length);
		else
			shell_quote(command, text_string(&s->scratch), s->scratch.length);
	}
	if (text_error(&s->scratch))
		command->error = text_error(&s->scratch);
}
