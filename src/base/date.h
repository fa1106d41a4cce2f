/* SPDX-License-Identifier: MIT */
/* Wall-clock times for people: milliseconds since 1970, written as 2026-11-15T21:06:36.123Z. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stddef.h>
#include <stdint.h>

int64_t date_now_ms(void);

#define DATE_TEXT 32
void date_format(int64_t ms, char out[DATE_TEXT]);

/* In local time, as short as possible: "22:00", with seconds if there are any, with the date unless it is
 * today's. */
void date_format_local(int64_t ms, int64_t now_ms, char out[DATE_TEXT]);

/*
 * Parses the output of date_format() and of Python's isoformat() (ISO 8601): with a space in place of the T, fractions
 * of any length or none, no zone (then local time) or ±hh:mm.
 */
int date_parse(const char *text, size_t size, int64_t *ret);

#endif
