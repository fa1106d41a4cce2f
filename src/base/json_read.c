/* SPDX-License-Identifier: MIT */
#include "base/json_read.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_plain.h"
#include "base/utf8.h"

#define MAX_DEPTH   64
#define OUTER_DEPTH 16 /* of json_inner_value() */

static int skip_value(struct json_cursor *c, int depth, struct json_value *ret);

static inline void skip_space(struct json_cursor *c)
{
	while (c->p < c->end && (unsigned char)*c->p <= ' ' &&
		(*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
		c->p++;
}

static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The cursor's p points after the opening quote. */
static int read_string(struct json_cursor *c, struct json_value *ret)
{
	const char *start = c->p, *p = start;
	bool escaped = false;
	for (;;) {
		p = json_skip_plain(p, c->end, false);
		if (p == c->end)
			return -EBADMSG;
		unsigned char ch = (unsigned char)*p;
		if (ch == '"')
			break;
		if (ch < 0x20)
			return -EBADMSG;
		if (ch >= 0x80) {
			size_t n = utf8_sequence(p, (size_t)(c->end - p));
			if (n == 0)
				return -EBADMSG;
			p += n;
		} else if (ch != '\\') {
			p++;
		} else {
			escaped = true;
			if (c->end - p < 2)
				return -EBADMSG;
			if (p[1] == 'u') {
				if (c->end - p < 6)
					return -EBADMSG;
				for (int i = 2; i < 6; i++)
					if (hex_digit(p[i]) < 0)
						return -EBADMSG;
				p += 6;
			} else {
				if (p[1] == '\0' || !strchr("\"\\/bfnrt", p[1]))
					return -EBADMSG;
				p += 2;
			}
		}
	}
	*ret = (struct json_value){start, (uint32_t)(p - start), JSON_STRING, escaped};
	c->p = p + 1;
	return 0;
}

static inline const char *skip_digits(const char *p, const char *end)
{
	while (p < end && (unsigned char)(*p - '0') < 10)
		p++;
	return p;
}

/* At least one digit; NULL if there is none. */
static const char *need_digits(const char *p, const char *end)
{
	const char *after = skip_digits(p, end);
	return after > p ? after : NULL;
}

/* The characters that may follow the integer part of a number. */
static const char *skip_fraction(const char *p, const char *end)
{
	if (p < end && *p == '.')
		p = need_digits(p + 1, end);
	if (p && p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		p = need_digits(p, end);
	}
	return p;
}

static int read_number(struct json_cursor *c, struct json_value *ret)
{
	const char *start = c->p, *whole = start + (*start == '-'), *p = skip_digits(whole, c->end);
	if (p == whole || (*whole == '0' && p - whole > 1))
		return -EBADMSG;
	/* A whole number ends at a comma or a bracket. */
	if (p < c->end && *p != ',' && !(p = skip_fraction(p, c->end)))
		return -EBADMSG;
	*ret = (struct json_value){start, (uint32_t)(p - start), JSON_NUMBER, false};
	c->p = p;
	return 0;
}

static int read_word(struct json_cursor *c, const char *word, enum json_type type, struct json_value *ret)
{
	size_t n = strlen(word);
	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return -EBADMSG;
	*ret = (struct json_value){c->p, (uint32_t)n, (unsigned char)type, false};
	c->p += n;
	return 0;
}

/* Inside brackets: moves to the next member or item and returns 1, or past the closing bracket and returns 0. */
static int next_in(struct json_cursor *c, char closing)
{
	skip_space(c);
	if (c->p == c->end)
		return -EBADMSG;
	if (*c->p == closing) {
		c->p++;
		return 0;
	}
	if (!c->first) {
		if (*c->p != ',')
			return -EBADMSG;
		c->p++;
		skip_space(c);
	}
	c->first = false;
	return 1;
}

static int read_key(struct json_cursor *c, struct json_value *ret)
{
	if (c->p == c->end || *c->p != '"')
		return -EBADMSG;
	c->p++;
	int r = read_string(c, ret);
	if (r < 0)
		return r;
	skip_space(c);
	if (c->p == c->end || *c->p != ':')
		return -EBADMSG;
	c->p++;
	skip_space(c);
	return 0;
}

static int skip_nested(struct json_cursor *c, int depth, char closing, struct json_value *ret)
{
	const char *start = c->p;
	struct json_cursor in = {c->p + 1, c->end, true};
	struct json_value v;
	int r;
	while ((r = next_in(&in, closing)) > 0) {
		if (closing == '}' && (r = read_key(&in, &v)) < 0)
			return r;
		r = skip_value(&in, depth + 1, &v);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	c->p = in.p;
	*ret = (struct json_value){start, (uint32_t)(in.p - start), closing == '}' ? JSON_OBJECT : JSON_ARRAY, false};
	return 0;
}

static int skip_value(struct json_cursor *c, int depth, struct json_value *ret)
{
	if (c->p == c->end || depth > MAX_DEPTH)
		return -EBADMSG;
	switch (*c->p) {
	case '"':
		c->p++;
		return read_string(c, ret);
	case '{':
		return skip_nested(c, depth, '}', ret);
	case '[':
		return skip_nested(c, depth, ']', ret);
	case 't':
		return read_word(c, "true", JSON_TRUE, ret);
	case 'f':
		return read_word(c, "false", JSON_FALSE, ret);
	case 'n':
		return read_word(c, "null", JSON_NULL, ret);
	default:
		return read_number(c, ret);
	}
}

int json_begin(struct json_cursor *c, const void *text, size_t size)
{
	*c = (struct json_cursor){text, (const char *)text + size, true};
	skip_space(c);
	if (size > UINT32_MAX || c->p == c->end || *c->p != '{')
		return -EBADMSG;
	c->p++;
	return 0;
}

void json_enter(struct json_cursor *c, const struct json_value *v)
{
	*c = (struct json_cursor){v->data + 1, v->data + v->size, true};
}

int json_next_member(struct json_cursor *c, struct json_value *ret_key, struct json_value *ret_value)
{
	int r = next_in(c, '}');
	if (r <= 0)
		return r;
	r = read_key(c, ret_key);
	if (r < 0)
		return r;
	r = skip_value(c, 1, ret_value);
	return r < 0 ? r : 1;
}

int json_inner_value(struct json_cursor *c, struct json_value *ret_value)
{
	skip_space(c);
	return skip_value(c, 1 + OUTER_DEPTH, ret_value);
}

int json_member_value(struct json_cursor *c, struct json_value *ret_value)
{
	skip_space(c);
	/* The common kinds of values. */
	if (c->p < c->end && *c->p == '"') {
		c->p++;
		return read_string(c, ret_value);
	}
	if (c->p < c->end && (unsigned char)(*c->p - '0') < 10)
		return read_number(c, ret_value);
	return skip_value(c, 1, ret_value);
}

int json_next_item(struct json_cursor *c, struct json_value *ret_value)
{
	int r = next_in(c, ']');
	if (r <= 0)
		return r;
	r = skip_value(c, 1, ret_value);
	return r < 0 ? r : 1;
}

int json_end(const struct json_cursor *c)
{
	struct json_cursor at = *c;
	skip_space(&at);
	return at.p == at.end ? 0 : -EBADMSG;
}

bool json_is(const struct json_value *v, const char *word)
{
	return !v->escaped && strlen(word) == v->size && memcmp(v->data, word, v->size) == 0;
}

static unsigned read_hex4(const char *p)
{
	unsigned u = 0;
	for (int i = 0; i < 4; i++)
		u = u << 4 | (unsigned)hex_digit(p[i]);
	return u;
}

static char *put_utf8(char *out, unsigned u)
{
	if (u < 0x80) {
		*out++ = (char)u;
	} else if (u < 0x800) {
		*out++ = (char)(0xC0 | u >> 6);
		*out++ = (char)(0x80 | (u & 0x3F));
	} else if (u < 0x10000) {
		*out++ = (char)(0xE0 | u >> 12);
		*out++ = (char)(0x80 | (u >> 6 & 0x3F));
		*out++ = (char)(0x80 | (u & 0x3F));
	} else {
		*out++ = (char)(0xF0 | u >> 18);
		*out++ = (char)(0x80 | (u >> 12 & 0x3F));
		*out++ = (char)(0x80 | (u >> 6 & 0x3F));
		*out++ = (char)(0x80 | (u & 0x3F));
	}
	return out;
}

/* p: after "\u". Returns how many bytes of the text were used. */
static size_t unescape_unicode(const char *p, const char *end, char **out)
{
	unsigned u = read_hex4(p);
	if (u < 0xD800 || u > 0xDFFF) {
		*out = put_utf8(*out, u);
		return 4;
	}
	if (u < 0xDC00 && end - p >= 10 && p[4] == '\\' && p[5] == 'u') {
		unsigned low = read_hex4(p + 6);
		if (low >= 0xDC00 && low <= 0xDFFF) {
			*out = put_utf8(*out, 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00));
			return 10;
		}
	}
	if (u >= 0xDC80 && u <= 0xDCFF)
		*(*out)++ = (char)(u - 0xDC00);
	else
		*out = put_utf8(*out, 0xFFFD);
	return 4;
}

size_t json_unescape(const struct json_value *v, char *out)
{
	if (!v->escaped) {
		memcpy(out, v->data, v->size);
		return v->size;
	}
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char *start = out;
	const char *p = v->data, *end = p + v->size;
	while (p < end) {
		if (*p != '\\') {
			*out++ = *p++;
		} else if (p[1] == 'u') {
			p += 2;
			p += unescape_unicode(p, end, &out);
		} else {
			*out++ = to[strchr(from, p[1]) - from];
			p += 2;
		}
	}
	return (size_t)(out - start);
}

int json_to_int64(const struct json_value *v, int64_t *ret)
{
	if (v->type != JSON_NUMBER)
		return -EBADMSG;
	const char *p = v->data, *end = p + v->size;
	bool negative = *p == '-';
	if (negative)
		p++;
	uint64_t n = 0;
	/* Eighteen digits cannot overflow. */
	for (const char *safe = end - p < 18 ? end : p + 18; p < safe; p++) {
		if ((unsigned char)(*p - '0') > 9)
			return -EBADMSG;
		n = n * 10 + (uint64_t)(*p - '0');
	}
	for (; p < end; p++) {
		if (*p < '0' || *p > '9' || n > (uint64_t)INT64_MAX / 10)
			return -EBADMSG;
		n = n * 10 + (uint64_t)(*p - '0');
		if (n > (uint64_t)INT64_MAX)
			return -EBADMSG;
	}
	*ret = negative ? -(int64_t)n : (int64_t)n;
	return 0;
}

int json_to_double(const struct json_value *v, double *ret)
{
	char buf[64];
	if (v->type != JSON_NUMBER || v->size >= sizeof(buf))
		return -EBADMSG;
	memcpy(buf, v->data, v->size);
	buf[v->size] = '\0';
	/* The decimal point that strtod() expects depends on the locale. */
	char *point = strchr(buf, '.');
	if (point)
		*point = localeconv()->decimal_point[0];
	*ret = strtod(buf, NULL);
	return 0;
}
