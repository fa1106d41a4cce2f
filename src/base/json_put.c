/* SPDX-License-Identifier: MIT */
#include "base/json_put.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/json_plain.h"
#include "base/utf8.h"

static void begin(struct text *t, const char *key)
{
	char last = t->length ? t->data[t->length - 1] : '[';
	if (last != '{' && last != '[' && last != ':' && last != '\n')
		text_append_char(t, ',');
	if (key) {
		text_append_char(t, '"');
		text_append_string(t, key);
		text_append(t, "\":", 2);
	}
}

void json_open(struct text *t, const char *key, char bracket)
{
	begin(t, key);
	text_append_char(t, bracket);
}

void json_close(struct text *t, char bracket)
{
	text_append_char(t, bracket);
}

static void put_escape(struct text *t, uint32_t c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *hit = c && c < 0x80 ? strchr(from, (int)c) : NULL;
	if (hit) {
		text_append_char(t, '\\');
		text_append_char(t, to[hit - from]);
	} else if (c > 0xffff) {
		text_appendf(t, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
	} else {
		text_appendf(t, "\\u%04x", c);
	}
}

/* JSON is also shown on terminals, so control characters of terminals are escaped. */
static bool is_plain(const char *s, size_t length)
{
	if (length == 1)
		return (unsigned char)s[0] >= 0x20 && s[0] != '"' && s[0] != '\\' && s[0] != 0x7F;
	return length > 1 && !utf8_is_deceptive(utf8_decode(s, length));
}

/* Returns whether the bytes are UTF-8 without a NUL. */
static bool put_bytes(struct text *t, const char *key, const char *p, size_t size)
{
	begin(t, key);
	text_append_char(t, '"');
	const char *end = p + size, *plain = p;
	bool is_text = true;
	while ((p = json_skip_plain(p, end, true)) < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p));
		if (is_plain(p, n)) {
			p += n;
			continue;
		}
		text_append(t, plain, (size_t)(p - plain));
		if (n == 0)
			text_append_string(t, UTF8_REPLACEMENT);
		else
			put_escape(t, utf8_decode(p, n));
		is_text = is_text && n > 0 && *p != '\0';
		p += n ? n : 1;
		plain = p;
	}
	text_append(t, plain, (size_t)(end - plain));
	text_append_char(t, '"');
	return is_text;
}

void json_put_bytes(struct text *t, const char *key, const void *data, size_t size)
{
	put_bytes(t, key, data, size);
}

void json_put_string(struct text *t, const char *key, const char *string)
{
	json_put_bytes(t, key, string, strlen(string));
}

void json_put_int(struct text *t, const char *key, int64_t n)
{
	begin(t, key);
	if (n < 0)
		text_append_char(t, '-');
	text_append_number(t, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void json_put_bool(struct text *t, const char *key, bool b)
{
	begin(t, key);
	text_append_string(t, b ? "true" : "false");
}

void json_put_null(struct text *t, const char *key)
{
	begin(t, key);
	text_append(t, "null", 4);
}

void json_put_seconds(struct text *t, const char *key, int64_t ms)
{
	char digits[32];
	int64_t whole = ms / 1000, rest = ms % 1000;
	int size = snprintf(digits, sizeof(digits), "%s%" PRId64 ".%03" PRId64, ms < 0 ? "-" : "",
		whole < 0 ? -whole : whole, rest < 0 ? -rest : rest);
	begin(t, key);
	text_append(t, digits, (size_t)size);
}

void json_put_decimal(struct text *t, const char *key, double value, unsigned digits)
{
	int64_t scale = 1;
	for (unsigned i = 0; i < digits; i++)
		scale *= 10;
	if (!(value > -9e8 && value < 9e8)) { /* times 1e9 it still fits an int64_t */
		if (!(value >= -9e18 && value <= 9e18)) {
			json_put_null(t, key);
			return;
		}
		json_put_int(t, key, (int64_t)value);
		return;
	}
	bool negative = value < 0;
	int64_t n = (int64_t)((negative ? -value : value) * (double)scale + 0.5);
	char text[48];
	int size = snprintf(text, sizeof(text), "%s%" PRId64, negative && n ? "-" : "", n / scale);
	if (digits)
		size += snprintf(text + size, sizeof(text) - (size_t)size, ".%0*" PRId64, (int)digits, n % scale);
	begin(t, key);
	text_append(t, text, (size_t)size);
}

void json_put_raw(struct text *t, const char *key, const char *json, size_t size)
{
	begin(t, key);
	text_append(t, json, size);
}

void json_put_any(struct text *t, const char *key, const void *data, size_t size)
{
	if (put_bytes(t, key, data, size))
		return;
	text_append(t, ",\"", 2);
	text_append_string(t, key);
	text_append_string(t, "_b64\":\"");
	base64_append(t, data, size);
	text_append_char(t, '"');
}
