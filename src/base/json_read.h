/* SPDX-License-Identifier: MIT */
/*
 * A strict JSON reader that builds no tree: it walks the members of an object or the items of an array and returns
 * slices of the text.
 *
 * The text may be any bytes, including NUL; it is not changed and must outlive the slices. Text that is not JSON by RFC
 * 8259, or not UTF-8, is -EBADMSG. Values are checked while they are walked, so an object is valid if
 * json_next_member() and json_end() have both returned 0.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum json_type {
	JSON_NULL = 1,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

struct json_value {
	const char *data;   /* string: between its quotes; else the value's text */
	uint32_t size;      /* a text of 4 GiB is refused */
	unsigned char type; /* enum json_type; 0: not there */
	bool escaped;       /* a string that contains a backslash */
};

/* Position of a walk. Start with json_begin() or json_enter(). */
struct json_cursor {
	const char *p;
	const char *end;
	bool first;
};

/* Begins to walk the text, which must be an object. */
int json_begin(struct json_cursor *c, const void *text, size_t size);
/* Begins to walk a value of type array or object. */
void json_enter(struct json_cursor *c, const struct json_value *v);

/* Returns 1 and the next member or item, 0 at the end, or -EBADMSG. */
int json_next_member(struct json_cursor *c, struct json_value *ret_key, struct json_value *ret_value);
int json_next_item(struct json_cursor *c, struct json_value *ret_value);

/* Whether the first n and the last n bytes are equal; n: a constant of at most 8, so that memcpy() is inlined. */
static inline bool json_same_ends(const char *a, const char *b, size_t size, size_t n)
{
	uint64_t x = 0, y = 0, last_x = 0, last_y = 0;
	memcpy(&x, a, n);
	memcpy(&y, b, n);
	memcpy(&last_x, a + size - n, n);
	memcpy(&last_y, b + size - n, n);
	return ((x ^ y) | (last_x ^ last_y)) == 0;
}

/* memcmp() in line: keys are short, so their two ends overlap. */
static inline bool json_same_bytes(const char *a, const char *b, size_t size)
{
	if (size >= 8 && size <= 16)
		return json_same_ends(a, b, size, 8);
	if (size >= 4 && size < 8)
		return json_same_ends(a, b, size, 4);
	if (size >= 2 && size < 4)
		return json_same_ends(a, b, size, 2);
	return memcmp(a, b, size) == 0;
}

/*
 * If the next key is exactly `key`, `"name":` without any white space, moves past it and returns true.
 * json_member_value() must follow.
 */
static inline bool json_skip_key(struct json_cursor *c, const char *key, size_t size)
{
	const char *p = c->p;
	if (!c->first && p < c->end && *p++ != ',')
		return false;
	if ((size_t)(c->end - p) < size || !json_same_bytes(p, key, size))
		return false;
	c->p = p + size;
	c->first = false;
	return true;
}

int json_member_value(struct json_cursor *c, struct json_value *ret_value);
/* The same for a value that will be nested in other values: 16 of the permitted levels are left for these. */
int json_inner_value(struct json_cursor *c, struct json_value *ret_value);

/* Returns 0 if only white space follows the walked value. */
int json_end(const struct json_cursor *c);

/* Whether a key (or a string without escapes) is this word. */
bool json_is(const struct json_value *v, const char *word);

/*
 * Decodes a string into `out`, which has room for v->size bytes. Returns the number of bytes. A lone surrogate
 * U+DC80…U+DCFF becomes the byte 0x80…0xFF (Python writes file names that are not UTF-8 in this way), any other U+FFFD.
 */
size_t json_unescape(const struct json_value *v, char *out);

/* 0, or -EBADMSG if the value is not such a number. Fractions are not integers. */
int json_to_int64(const struct json_value *v, int64_t *ret);
int json_to_double(const struct json_value *v, double *ret);

#endif
