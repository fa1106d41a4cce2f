/* SPDX-License-Identifier: MIT */
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/display.h"
#include "base/error.h"

/* Fractions have at most six digits: more would overflow. */
#define FRACTION 1000000u

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"B", 1},
	{"K", UNITS_KB},
	{"KB", UNITS_KB},
	{"KiB", UNITS_KB},
	{"M", UNITS_MB},
	{"MB", UNITS_MB},
	{"MiB", UNITS_MB},
	{"G", UNITS_GB},
	{"GB", UNITS_GB},
	{"GiB", UNITS_GB},
	{"T", UNITS_GB * 1024},
	{"TB", UNITS_GB * 1024},
	{"TiB", UNITS_GB * 1024},
};

static const struct unit duration_units[] = {
	{"ms", 1},
	{"s", 1000},
	{"m", 60 * 1000},
	{"min", 60 * 1000},
	{"h", 60 * 60 * 1000},
	{"d", 24 * 60 * 60 * 1000},
	{"w", 7 * 24 * 60 * 60 * 1000},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct unit *unit_find(const struct unit *units, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(units[i].name) == length && !strncasecmp(units[i].name, name, length))
			return &units[i];
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A decimal number. strtod() is not used, because it accepts signs, "inf", hexadecimal and the locale's comma. */
struct number {
	uint64_t whole;
	uint64_t millionths;
};

/* Returns 0, -EINVAL if there is no number, or -ERANGE; moves *p after it. */
static int number_parse(const char **p, struct number *ret)
{
	const char *s = *p;
	struct number n = {0};
	bool any = false, overflow = false;
	for (; is_digit(*s); s++, any = true)
		overflow |= __builtin_mul_overflow(n.whole, 10, &n.whole) ||
			    __builtin_add_overflow(n.whole, (uint64_t)(*s - '0'), &n.whole);
	if (*s == '.') {
		uint64_t place = FRACTION;
		for (s++; is_digit(*s); s++, any = true) {
			place /= 10;
			n.millionths += place * (uint64_t)(*s - '0');
		}
		if (s[-1] == '.')
			return -EINVAL;
	}
	if (!any)
		return -EINVAL;
	if (overflow)
		return -ERANGE;
	*p = s;
	*ret = n;
	return 0;
}

static int number_times(const struct number *n, uint64_t factor, uint64_t *ret)
{
	uint64_t whole;
	if (__builtin_mul_overflow(n->whole, factor, &whole) ||
		__builtin_add_overflow(whole, n->millionths * factor / FRACTION, &whole))
		return -ERANGE;
	*ret = whole;
	return 0;
}

static const char *skip_spaces(const char *s)
{
	return s + strspn(s, " ");
}

/* A word of letters; moves *p after it and the spaces around it. */
static size_t word_parse(const char **p, const char **ret_word)
{
	const char *s = skip_spaces(*p);
	*ret_word = s;
	while (is_letter(*s))
		s++;
	size_t length = (size_t)(s - *ret_word);
	*p = skip_spaces(s);
	return length;
}

static bool is_plain_number(const char *text)
{
	struct number n;
	return number_parse(&text, &n) == 0 && !*text;
}

static int size_error(struct gd_error *err, int code, const char *text, bool plain)
{
	char quote[DISPLAY_QUOTE_ROOM];
	display_quote(text, quote);
	if (code == -ERANGE)
		return error_set(err, code, "'%s' is too large for a size", quote);
	if (!plain && is_plain_number(text))
		return error_set(err, code, "'%s' has no unit; expected a size like 12G or 800M", quote);
	return error_set(err, code, "'%s' is not a size; expected a number with a unit, like 12G or 800M%s", quote,
		plain ? ", or a plain number of MB" : "");
}

int units_parse_size(const char *text, uint64_t plain_unit_bytes, uint64_t *ret_bytes, struct gd_error *err)
{
	const char *p = text, *word;
	struct number n;
	int r = number_parse(&p, &n);
	if (r < 0)
		return size_error(err, r, text, plain_unit_bytes);

	size_t length = word_parse(&p, &word);
	/* Zero is zero in every unit. */
	bool nothing = n.whole == 0 && n.millionths == 0;
	const struct unit plain = {"", nothing ? 1 : plain_unit_bytes};
	const struct unit *unit = length ? unit_find(size_units, COUNT(size_units), word, length) : &plain;
	if (!unit || !unit->factor || *p)
		return size_error(err, -EINVAL, text, plain_unit_bytes);

	r = number_times(&n, unit->factor, ret_bytes);
	return r < 0 ? size_error(err, r, text, plain_unit_bytes) : 0;
}

static int duration_error(struct gd_error *err, int code, const char *text)
{
	char quote[DISPLAY_QUOTE_ROOM];
	display_quote(text, quote);
	if (code == -ERANGE)
		return error_set(err, code, "'%s' is too large for a duration", quote);
	return error_set(err, code,
		"'%s' is not a duration; expected seconds, or a number with a unit, like 90, 1.5h or 2d", quote);
}

int units_parse_duration(const char *text, uint64_t *ret_ms, struct gd_error *err)
{
	const struct unit seconds = {"", 1000};
	const char *p = text;
	uint64_t total = 0, last_factor = UINT64_MAX;
	bool positive = false;
	do {
		struct number n;
		const char *word;
		int r = number_parse(&p, &n);
		if (r < 0)
			return duration_error(err, r, text);
		size_t length = word_parse(&p, &word);
		const struct unit *unit = &seconds;
		if (length)
			unit = unit_find(duration_units, COUNT(duration_units), word, length);
		else if (*p || total || last_factor != UINT64_MAX)
			unit = NULL; /* "1h 30": minutes or seconds? */
		if (!unit || unit->factor >= last_factor)
			return duration_error(err, -EINVAL, text);
		last_factor = unit->factor;

		uint64_t part;
		r = number_times(&n, unit->factor, &part);
		if (r < 0 || __builtin_add_overflow(total, part, &total))
			return duration_error(err, -ERANGE, text);
		positive |= n.whole || n.millionths;
	} while (*p);
	/* Callers turn milliseconds into signed nanoseconds. */
	if (total > INT64_MAX / 1000000)
		return duration_error(err, -ERANGE, text);
	*ret_ms = total || !positive ? total : 1;
	return 0;
}

int units_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret, struct gd_error *err)
{
	const char *p = text;
	bool negative = *p == '-', overflow = false;
	if (negative)
		p++;
	int64_t value = 0;
	bool any = false;
	for (; is_digit(*p); p++, any = true)
		overflow |= __builtin_mul_overflow(value, 10, &value) ||
			    __builtin_sub_overflow(value, (int64_t)(*p - '0'), &value);
	/* Computed as negative, because the negative range is larger by one. */
	if (!negative)
		overflow |= __builtin_sub_overflow((int64_t)0, value, &value);
	if (any && !*p && !overflow && value >= min && value <= max) {
		*ret = value;
		return 0;
	}
	char quote[DISPLAY_QUOTE_ROOM];
	display_quote(text, quote);
	if (!any || *p)
		return error_set(err, -EINVAL, "'%s' is not a whole number", quote);
	return max == INT64_MAX
		       ? error_set(err, -ERANGE, "'%s' is out of range; expected at least %" PRId64, quote, min)
		       : error_set(err, -ERANGE, "'%s' is out of range; expected %" PRId64 " to %" PRId64, quote, min,
				 max);
}

const char *units_format_size(uint64_t bytes, char buf[UNITS_ROOM])
{
	/* Rounds up to the next unit early, so that it never prints "1024 MiB". */
	if (bytes < UNITS_KB)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 " B", bytes);
	else if (bytes < UNITS_MB - UNITS_KB / 2)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 " KiB", (bytes + UNITS_KB / 2) / UNITS_KB);
	else if (bytes < UNITS_GB - UNITS_MB / 2)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 " MiB", (bytes + UNITS_MB / 2) / UNITS_MB);
	else {
		/* In integers: %f writes the locale's comma. */
		uint64_t tenths = bytes / UNITS_GB * 10 + (bytes % UNITS_GB * 10 + UNITS_GB / 2) / UNITS_GB;
		snprintf(buf, UNITS_ROOM, "%" PRIu64 ".%" PRIu64 " GiB", tenths / 10, tenths % 10);
	}
	return buf;
}

/* Short durations are formatted without printf(), which is slow: a list of 100,000 jobs has one on each line. */
static const char *format_short(uint64_t ms, char buf[UNITS_ROOM])
{
	char *p = buf;
	if (ms >= 1000) {
		*p++ = (char)('0' + ms / 1000);
		*p++ = '.';
		*p++ = (char)('0' + ms / 100 % 10);
	} else {
		if (ms >= 100)
			*p++ = (char)('0' + ms / 100);
		if (ms >= 10)
			*p++ = (char)('0' + ms / 10 % 10);
		*p++ = (char)('0' + ms % 10);
		*p++ = 'm';
	}
	*p++ = 's';
	*p = '\0';
	return buf;
}

const char *units_format_duration(uint64_t ms, char buf[UNITS_ROOM])
{
	uint64_t s = ms / 1000;
	if (s < 10)
		return format_short(ms, buf);
	if (s < 60)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 "s", s);
	else if (s < 60 * 60)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 "m %02" PRIu64 "s", s / 60, s % 60);
	else if (s < 24 * 60 * 60)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 "h %02" PRIu64 "m", s / 3600, s / 60 % 60);
	else
		snprintf(buf, UNITS_ROOM, "%" PRIu64 "d %02" PRIu64 "h", s / 86400, s / 3600 % 24);
	return buf;
}

static uint64_t nearest(uint64_t n, uint64_t step)
{
	return (n + step / 2) / step * step;
}

const char *units_format_about(uint64_t ms, char buf[UNITS_ROOM])
{
	uint64_t s = ms / 1000, minutes = (s + 30) / 60, halves = (s + 900) / 1800;
	if (s < 10)
		snprintf(buf, UNITS_ROOM, "a few seconds");
	else if (s < 55)
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 " s", nearest(s, 10));
	else if (minutes <= 10)
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 " min", minutes ? minutes : 1);
	else if (nearest(minutes, 5) < 60)
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 " min", nearest(minutes, 5));
	else if (halves < 20)
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 "%s h", halves / 2, halves % 2 ? ".5" : "");
	else if (s < 47 * 3600 + 1800)
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 " h", nearest(s, 3600) / 3600);
	else
		snprintf(buf, UNITS_ROOM, "about %" PRIu64 " days", nearest(s, 86400) / 86400);
	return buf;
}

const char *units_format_seconds(double seconds, char buf[UNITS_ROOM])
{
	return units_format_duration((uint64_t)(seconds * 1000), buf);
}

const char *units_format_energy(uint64_t joules, char buf[UNITS_ROOM])
{
	double watt_hours = (double)joules / 3600;
	if (joules < 3600)
		snprintf(buf, UNITS_ROOM, "%" PRIu64 " J", joules);
	else if (watt_hours < 999.95)
		snprintf(buf, UNITS_ROOM, "%.1f Wh", watt_hours);
	else
		snprintf(buf, UNITS_ROOM, "%.2f kWh", watt_hours / 1000);
	return buf;
}

const char *units_format_count(uint64_t n, char buf[UNITS_ROOM])
{
	char digits[UNITS_ROOM];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, n), to = 0;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buf[to++] = ',';
		buf[to++] = digits[i];
	}
	buf[to] = '\0';
	return buf;
}

int units_parse_flag(const char *text, bool *ret, struct gd_error *err)
{
	static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
	for (size_t i = 0; i < COUNT(yes); i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*ret = !strcasecmp(text, yes[i]);
			return 0;
		}
	}
	char quote[DISPLAY_QUOTE_ROOM];
	return error_set(err, -EINVAL, "'%s' is not a boolean; expected true or false", display_quote(text, quote));
}
