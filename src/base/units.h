/* SPDX-License-Identifier: MIT */
/*
 * Sizes and durations as people write and read them.
 *
 * Every unit of size is a power of 1024, with and without the i, as in nvidia-smi, Slurm and Docker: "12G", "12GB" and
 * "12GiB" are the same, so printed sizes can be typed again. Parsing is strict: no sign, no trailing text, no overflow;
 * the error states what was expected.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

#define UNITS_KB (UINT64_C(1) << 10)
#define UNITS_MB (UINT64_C(1) << 20)
#define UNITS_GB (UINT64_C(1) << 30)

/* Room for anything that units_format_… writes. */
#define UNITS_ROOM 32

/*
 * "12G", "800M", "1.5GiB", "16 GB", "4096B". A bare number counts in
 * plain_unit_bytes (UNITS_MB where the option's name says so); 0: a bare number is refused. A bare 0 is always 0.
 */
int units_parse_size(const char *text, uint64_t plain_unit_bytes, uint64_t *ret_bytes, struct gd_error *err);

/*
 * "2h", "30d", "1.5h", "500ms", "1h30m", "2h 03m"; a bare number is seconds.
 * Units: ms s m min h d w, the larger first. Less than a millisecond counts as one.
 */
int units_parse_duration(const char *text, uint64_t *ret_ms, struct gd_error *err);

/* A whole number from min to max, in decimal digits. */
int units_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret, struct gd_error *err);

/* "true", "yes" and "on", "false", "no" and "off", in any case. */
int units_parse_flag(const char *text, bool *ret, struct gd_error *err);

/* "12.0 GiB", "9.1 GiB", "800 MiB", "512 B". Returns buf. */
const char *units_format_size(uint64_t bytes, char buf[UNITS_ROOM]);

/* "532 J", "12.3 Wh", "1.24 kWh". Returns buf. */
const char *units_format_energy(uint64_t joules, char buf[UNITS_ROOM]);

/*
 * "450ms", "4.2s", "42s", "3m 05s", "2h 03m", "4d 02h". Truncated, not rounded, so that a clock never runs ahead.
 * Returns buf.
 */
const char *units_format_duration(uint64_t ms, char buf[UNITS_ROOM]);
/*
 * A time that is only estimated, rounded to what can be known: "a few seconds", "about 40 s", "about 4 min",
 * "about 50 min", "about 2.5 h", "about 3 days". Returns buf.
 */
const char *units_format_about(uint64_t ms, char buf[UNITS_ROOM]);
/* units_format_duration() from seconds, which are not negative. */
const char *units_format_seconds(double seconds, char buf[UNITS_ROOM]);

/* 1234567 as "1,234,567". */
const char *units_format_count(uint64_t n, char buf[UNITS_ROOM]);

#endif
