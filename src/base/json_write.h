/* SPDX-License-Identifier: MIT */
/*
 * JSON into a text, value by value: struct json_writer w = {.out = &text}. Commas
 * and colons come by themselves; that begin and end match, and that keys stand in
 * objects only, is up to the caller. Strings may be any bytes: what is not UTF-8
 * becomes U+FFFD, so what is written is always valid. Memory that runs out is
 * remembered in the text.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct json_writer {
	struct text *out;
	bool comma; /* the next value or key needs one before it */
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

/* The key of the value that comes next. */
void json_key(struct json_writer *w, const char *key);

void json_string(struct json_writer *w, const char *string); /* NULL: null */
void json_bytes(struct json_writer *w, const void *data, size_t size);
void json_int(struct json_writer *w, int64_t value);
void json_uint(struct json_writer *w, uint64_t value);
void json_double(struct json_writer *w, double value); /* what JSON cannot say (NaN, infinity): null */
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);

/* Some JSON that is complete already, as it is. */
void json_raw(struct json_writer *w, const char *json);

#endif
