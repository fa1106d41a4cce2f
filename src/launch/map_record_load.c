/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/line_reader.h"
#include "launch/items_task.h"
#include "launch/map_record.h"

#define MOST_ITEMS    (UINT64_C(1) << 36)
#define NUMBER_DIGITS 11 /* of MOST_ITEMS */
#define CHECK_DIGITS  8
#define DIGITS        "0123456789"

static int read_check(const struct json_value *v, uint32_t *ret)
{
	uint32_t check = 0;
	if (v->type != JSON_STRING || v->size != CHECK_DIGITS)
		return -EBADMSG;
	for (size_t i = 0; i < CHECK_DIGITS; i++) {
		const char *digits = DIGITS "abcdef", *d = memchr(digits, v->data[i], 16);
		if (!d)
			return -EBADMSG;
		check = check << 4 | (uint32_t)(d - digits);
	}
	*ret = check;
	return 0;
}

int map_record_read_line(const char *line, size_t size, struct map_record_line *ret)
{
	struct json_cursor c;
	struct json_value key, number, check, value;
	int64_t n;
	if (json_begin(&c, line, size) < 0 || json_next_member(&c, &key, &number) <= 0 || !json_is(&key, "n") ||
		json_next_member(&c, &key, &check) <= 0 || !json_is(&key, "item") ||
		json_next_member(&c, &key, &value) <= 0)
		return -EBADMSG;
	ret->failed = json_is(&key, "error");
	if ((!ret->failed && !json_is(&key, "result")) || json_next_member(&c, &key, &value) != 0 || json_end(&c) < 0)
		return -EBADMSG;
	if (json_to_int64(&number, &n) < 0 || n < 1 || (uint64_t)n > MOST_ITEMS)
		return -EBADMSG;
	ret->number = (uint64_t)n;
	return read_check(&check, &ret->check);
}

/* Makes space for bits up to this number; new bits are 0. */
static int reserve_bits(uint64_t **bits, size_t *capacity, uint64_t highest)
{
	size_t words = *capacity;
	uint64_t *more = *bits;
	if (array_reserve(more, capacity, highest / 64 + 1) < 0)
		return -ENOMEM;
	if (*capacity > words)
		memset(more + words, 0, (*capacity - words) * sizeof(*more));
	*bits = more;
	return 0;
}

static int add(struct map_record *r, const struct map_file *f, const struct map_record_line *line)
{
	uint64_t number = line->number;
	if (reserve_bits(&r->done, &r->done_capacity, number) < 0 ||
		reserve_bits(&r->bad, &r->bad_capacity, number) < 0 ||
		array_reserve(r->checks, &r->checks_capacity, number + 1) < 0)
		return -ENOMEM;
	uint64_t bit = UINT64_C(1) << (number % 64);
	if (r->done[number / 64] & bit) {
		/* The item failed in a run with --errors, and a later run without --errors wrote its result or failure
		 * to the output.
		 */
		if (f != &r->errors || !line->failed || r->checks[number] != line->check)
			return -EEXIST;
		r->outdated++;
		return 0;
	}
	r->done[number / 64] |= bit;
	if (line->failed)
		r->bad[number / 64] |= bit;
	r->checks[number] = line->check;
	r->count++;
	r->failed += line->failed;
	if (number > r->highest)
		r->highest = number;
	return 0;
}

/* What is left of an incomplete line. */
struct rest {
	const char *at;
	size_t left;
};

/* Takes these words, or their beginning if the line ends there. */
static bool take_words(struct rest *r, const char *words)
{
	size_t length = strlen(words), n = length < r->left ? length : r->left;
	bool same = memcmp(r->at, words, n) == 0;
	r->at += n;
	r->left -= n;
	return same;
}

/* Takes at most this many characters of the set: at least one, or all of them (`exact`) unless the line ends there. */
static bool take_any(struct rest *r, const char *set, size_t most, bool exact)
{
	size_t n = 0;
	while (n < most && n < r->left && memchr(set, r->at[n], strlen(set)))
		n++;
	r->at += n;
	r->left -= n;
	return r->left == 0 || (exact ? n == most : n > 0);
}

/*
 * Whether this is the beginning of a line of map_record_format(), which is removed. For the first line of a file, a
 * short beginning is not enough: the file may not be ours.
 */
static bool is_torn(const char *line, size_t size, bool first)
{
	struct rest r = {line, size};
	bool alike = take_words(&r, "{\"n\":") && take_any(&r, DIGITS, NUMBER_DIGITS, false) &&
		     take_words(&r, ",\"item\":\"") && take_any(&r, DIGITS "abcdef", CHECK_DIGITS, true) &&
		     take_words(&r, "\",\"");
	if (!alike || r.left == 0)
		return alike && !first;
	struct rest failed = r;
	return take_words(&r, "result\":") || take_words(&failed, "error\":");
}

static int refuse(const struct map_file *f, uint64_t line, int code, uint64_t number, struct gd_error *err)
{
	if (code == -ENOMEM)
		return error_set(err, code, "cannot read '%s': out of memory", f->name);
	if (code == -EEXIST)
		return error_set(err, -EBADMSG,
			"refusing to continue '%s': item %llu occurs twice (line %llu); remove one of its lines from the output or the errors file",
			f->name, (unsigned long long)number, (unsigned long long)line);
	return error_set(err, -EBADMSG,
		"refusing to append to '%s': line %llu was not written by gpuq map; choose another file, or remove the line if it is damaged",
		f->name, (unsigned long long)line);
}

int map_record_load(struct map_record *r, const struct map_file *f, uint64_t *ret_end, struct gd_error *err)
{
	cleanup_(line_reader_finish) struct line_reader reader = {.fd = f->fd, .max_bytes = MAP_RECORD_LINE_MAX};
	struct map_record_line read = {0};
	uint64_t end = 0;
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return error_set(err, -errno, "cannot read '%s': %s", f->name, error_words(-errno));
	for (uint64_t at = 1;; at++) {
		const char *line;
		ssize_t n = line_reader_next(&reader, &line);
		if (n < 0 && n != -EFBIG)
			return error_set(err, (int)n, "cannot read '%s': %s", f->name, error_words((int)n));
		if (n == 0 || (n > 0 && line[n - 1] != '\n' && is_torn(line, (size_t)n, at == 1)))
			break;
		int e = n < 0 || line[n - 1] != '\n' ? -EBADMSG : map_record_read_line(line, (size_t)n, &read);
		if (e == 0)
			e = add(r, f, &read);
		if (e < 0)
			return refuse(f, at, e, read.number, err);
		end += (uint64_t)n;
	}
	*ret_end = end;
	return 0;
}
