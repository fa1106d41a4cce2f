/* SPDX-License-Identifier: MIT */
/*
 * Writing JSON into a struct text. Commas are added automatically: one is written if the text so far does not end in an
 * opening bracket or a colon. A NULL key writes an item of an array.
 */
#ifndef BASE_JSON_PUT_H
#define BASE_JSON_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

void json_open(struct text *t, const char *key, char bracket); /* '{' or '[' */
void json_close(struct text *t, char bracket);                 /* '}' or ']' */

/*
 * Writes bytes that are not UTF-8 as U+FFFD, and escapes control characters of terminals and direction marks: \u009b,
 * \u202e.
 */
void json_put_bytes(struct text *t, const char *key, const void *data, size_t size);
void json_put_string(struct text *t, const char *key, const char *string);
void json_put_int(struct text *t, const char *key, int64_t n);
void json_put_bool(struct text *t, const char *key, bool b);
void json_put_null(struct text *t, const char *key);
/* Seconds with three digits after the point, from milliseconds. */
void json_put_seconds(struct text *t, const char *key, int64_t ms);
/* With `digits` (at most 9) after the point, independent of the locale; null for NaN and infinities. */
void json_put_decimal(struct text *t, const char *key, double value, unsigned digits);
/* Text that is already JSON. */
void json_put_raw(struct text *t, const char *key, const char *json, size_t size);

/*
 * Writes any bytes: under `key` as json_put_bytes() does and, if they are not UTF-8 or contain a NUL, also as base64
 * under `key` + "_b64".
 */
void json_put_any(struct text *t, const char *key, const void *data, size_t size);

#endif
