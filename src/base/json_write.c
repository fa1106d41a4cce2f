/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void begin_value(struct json_writer *w)
{
	if (w->comma)
		text_append_char(w->out, ',');
	w->comma = true;
}

void json_begin_object(struct json_writer *w)
{
	begin_value(w);
	text_append_char(w->out, '{');
	w->comma = false;
}

void json_end_object(struct json_writer *w)
{
	text_append_char(w->out, '}');
	w->comma = true;
}

void json_begin_array(struct json_writer *w)
{
	begin_value(w);
	text_append_char(w->out, '[');
	w->comma = false;
}

void json_end_array(struct json_writer *w)
{
	text_append_char(w->out, ']');
	w->comma = true;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

/* One character that cannot stand as it is; returns how many bytes of the string it took. */
static size_t write_escaped(struct text *out, const char *p, size_t left)
{
	static const char short_forms[][2] = {
		{'"', '"'}, {'\\', '\\'}, {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}, {'\b', 'b'}, {'\f', 'f'}};
	for (size_t i = 0; i < sizeof(short_forms) / sizeof(*short_forms); i++)
		if (*p == short_forms[i][0]) {
			text_append(out, (char[]){'\\', short_forms[i][1]}, 2);
			return 1;
		}
	unsigned char c = (unsigned char)*p;
	if (c < 0x20 || c == 0x7F) {
		text_appendf(out, "\\u%04x", c);
		return 1;
	}
	size_t length = utf8_sequence(p, left);
	if (length == 0) {
		text_append_string(out, UTF8_REPLACEMENT);
		return 1;
	}
	text_append(out, p, length);
	return length;
}

static void write_string(struct text *out, const char *data, size_t size)
{
	text_append_char(out, '"');
	for (size_t i = 0; i < size;) {
		size_t plain = 0;
		while (i + plain < size && is_plain((unsigned char)data[i + plain]))
			plain++;
		text_append(out, data + i, plain);
		i += plain;
		if (i < size)
			i += write_escaped(out, data + i, size - i);
	}
	text_append_char(out, '"');
}

void json_key(struct json_writer *w, const char *key)
{
	begin_value(w);
	write_string(w->out, key, strlen(key));
	text_append_char(w->out, ':');
	w->comma = false;
}

void json_bytes(struct json_writer *w, const void *data, size_t size)
{
	begin_value(w);
	write_string(w->out, data, size);
}

void json_string(struct json_writer *w, const char *string)
{
	if (string)
		json_bytes(w, string, strlen(string));
	else
		json_null(w);
}

void json_int(struct json_writer *w, int64_t value)
{
	begin_value(w);
	text_appendf(w->out, "%lld", (long long)value);
}

void json_uint(struct json_writer *w, uint64_t value)
{
	begin_value(w);
	text_appendf(w->out, "%llu", (unsigned long long)value);
}

void json_double(struct json_writer *w, double value)
{
	if (!isfinite(value)) {
		json_null(w);
		return;
	}
	/* The shortest form that reads back as the same number. */
	char digits[40];
	for (int precision = 15; precision <= 17; precision++) {
		snprintf(digits, sizeof(digits), "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	/* A host program may have set a locale with a decimal comma. */
	char *point = strpbrk(digits, ",");
	if (point)
		*point = '.';
	begin_value(w);
	text_append_string(w->out, digits);
}

void json_bool(struct json_writer *w, bool value)
{
	json_raw(w, value ? "true" : "false");
}

void json_null(struct json_writer *w)
{
	json_raw(w, "null");
}

void json_raw(struct json_writer *w, const char *json)
{
	begin_value(w);
	text_append_string(w->out, json);
}
