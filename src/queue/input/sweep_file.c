/* SPDX-License-Identifier: MIT */
/* A file of parameters: CSV as in RFC 4180, the first line has the names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "queue/input/sweep_private.h"

#define LARGEST_FILE ((size_t)256 << 20)

struct csv_reader {
	const char *p, *end;
	size_t line;
};

static int read_file(const char *path, enum trust_choice choice, struct text *t, struct gd_error *err)
{
	char chunk[65536];
	cleanup_(closep) int fd = -1;
	int r = trust_open(path, TRUST_NAMED | choice, "", &fd, err);
	if (r == -EPERM)
		return r;
	while (r == 0) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			break;
		if (n < 0)
			r = -errno;
		else
			text_append(t, chunk, (size_t)n);
		if (t->length > LARGEST_FILE)
			r = -EFBIG;
	}
	if (r == 0)
		r = text_error(t);
	return r < 0 ? error_set(err, r, "cannot read '%s': %s", path, error_words(r)) : 0;
}

/* The next field, without its quotation marks. *ret_last: the line ends after it. */
static int next_field(struct csv_reader *c, struct text *field, bool *ret_last, struct gd_error *err)
{
	bool quoted = c->p < c->end && *c->p == '"';
	text_clear(field);
	text_append(field, "", 0);
	c->p += quoted;
	for (; c->p < c->end; c->p++) {
		if (quoted && *c->p == '"' && c->p + 1 < c->end && c->p[1] == '"')
			c->p++;
		else if (quoted ? *c->p == '"' : *c->p == ',' || *c->p == '\n')
			break;
		c->line += *c->p == '\n';
		text_append_char(field, *c->p);
	}
	if (quoted && c->p == c->end)
		return error_set(err, -EINVAL, "the quotation mark is not closed");
	c->p += quoted;
	if (!quoted && field->length > 0 && field->data[field->length - 1] == '\r')
		field->data[--field->length] = '\0';
	else if (quoted && c->p < c->end && *c->p == '\r')
		c->p++;
	if (c->p < c->end && *c->p != ',' && *c->p != '\n')
		return error_set(err, -EINVAL, "expected a comma after the quotation mark");
	*ret_last = c->p == c->end || *c->p == '\n';
	c->p += c->p < c->end;
	return text_error(field) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static char *copy_of(const struct text *field)
{
	return strdup(text_string(field));
}

/* Each name is compared with all others, so the time grows with the square of their number. */
#define MOST_NAMES 1000

static int read_names(struct csv_reader *c, struct sweep_axis *a, struct gd_error *err)
{
	cleanup_(text_finish) struct text field = {0};
	char quote[DISPLAY_QUOTE_ROOM];
	size_t capacity = 0;
	bool last = false;
	while (!last) {
		int r = next_field(c, &field, &last, err);
		if (r < 0)
			return r;
		if (a->num_names == MOST_NAMES)
			return error_set(err, -EINVAL, "more than %d names", MOST_NAMES);
		if (field.length == 0 || field.data[strcspn(field.data, "{}= ")])
			return error_set(err, -EINVAL,
				"'%s' is not a valid parameter name; the first line must contain the names",
				display_quote(text_string(&field), quote));
		if (array_reserve(a->names, &capacity, a->num_names + 1) < 0 ||
			!(a->names[a->num_names] = copy_of(&field)))
			return error_set(err, -ENOMEM, "out of memory");
		a->num_names++;
	}
	return 0;
}

/* Reads one line of values, which are kept only if there is one for each name. */
static int read_row(struct csv_reader *c, struct sweep_axis *a, struct gd_error *err)
{
	cleanup_(text_finish) struct text field = {0};
	size_t at = a->num_rows * a->num_names, n = 0;
	bool last = false;
	int r = 0;
	if (a->num_rows >= SWEEP_MAX_JOBS)
		return error_set(err, -EINVAL, "more than %zu lines", SWEEP_MAX_JOBS);
	if (array_reserve(a->values, &a->values_capacity, at + a->num_names) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	while (r == 0 && !last) {
		r = next_field(c, &field, &last, err);
		if (r == 0 && n < a->num_names && !(a->values[at + n] = copy_of(&field)))
			r = error_set(err, -ENOMEM, "out of memory");
		if (r == 0)
			n++;
	}
	if (r == 0 && n != a->num_names)
		r = error_set(err, -EINVAL, "%zu value%s for %zu parameter%s", n, n == 1 ? "" : "s", a->num_names,
			a->num_names == 1 ? "" : "s");
	for (size_t i = 0; r < 0 && i < n && i < a->num_names; i++)
		free(a->values[at + i]);
	if (r == 0)
		a->num_rows++;
	return r;
}

int sweep_add_file(struct sweep *s, const char *path)
{
	if (array_reserve(s->axes, &s->axes_capacity, s->num_axes + 1) < 0)
		return -ENOMEM;
	s->axes[s->num_axes++] = (struct sweep_axis){.file = path};
	return 0;
}

static int read_axis(struct sweep_axis *a, enum trust_choice choice, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	const char *path = a->file;
	int r = read_file(path, choice, &t, err);
	if (r < 0)
		return r;
	a->file = NULL;
	struct csv_reader c = {.p = text_string(&t), .end = text_string(&t) + t.length};
	struct gd_error why = {0};
	if (t.length >= 3 && memcmp(c.p, "\xef\xbb\xbf", 3) == 0)
		c.p += 3;
	if (memchr(text_string(&t), '\0', t.length))
		return error_set(err, -EINVAL, "%s: the file contains a NUL byte", path);
	while (r == 0 && c.p < c.end) {
		size_t line = ++c.line;
		if (*c.p == '\n' || (*c.p == '\r' && c.p + 1 < c.end && c.p[1] == '\n')) {
			c.p += 1 + (*c.p == '\r');
			continue;
		}
		r = a->num_names ? read_row(&c, a, &why) : read_names(&c, a, &why);
		if (r < 0)
			return error_set(err, r, "%s:%zu: %s", path, line, why.message);
	}
	if (a->num_rows == 0)
		return error_set(err, -EINVAL, "%s: expected a line of names, and at least one line of values", path);
	return 0;
}

int sweep_read_files(struct sweep *s, enum trust_choice choice, struct gd_error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->num_axes; i++)
		if (s->axes[i].file)
			r = read_axis(&s->axes[i], choice, err);
	return r;
}
