/* SPDX-License-Identifier: MIT */
#include "queue/journal/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void number_set_finish(struct number_set *s)
{
	free(s->ranges);
	*s = (struct number_set){0};
}

/* The first range that ends at n or later. */
static size_t find(const struct number_set *s, uint64_t n)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->ranges[middle].last < n)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool number_set_has(const struct number_set *s, uint64_t n)
{
	size_t i = find(s, n);
	return i < s->count && s->ranges[i].first <= n;
}

/* Replaces `count` ranges at i with the ranges `with`. */
static int splice(struct number_set *s, size_t i, size_t count, const struct number_range *with, size_t num_with)
{
	if (array_reserve(s->ranges, &s->capacity, s->count + num_with) < 0)
		return -ENOMEM;
	memmove(s->ranges + i + num_with, s->ranges + i + count, (s->count - i - count) * sizeof(*s->ranges));
	if (num_with)
		memcpy(s->ranges + i, with, num_with * sizeof(*with));
	s->count += num_with - count;
	return 0;
}

int number_set_add(struct number_set *s, uint64_t first, uint64_t last)
{
	if (first > last)
		return 0;
	struct number_range r = {first, last};
	size_t i = find(s, first > 1 ? first - 1 : first), end = i;
	for (; end < s->count && s->ranges[end].first <= (last == UINT64_MAX ? last : last + 1); end++) {
		if (s->ranges[end].first < r.first)
			r.first = s->ranges[end].first;
		if (s->ranges[end].last > r.last)
			r.last = s->ranges[end].last;
	}
	return splice(s, i, end - i, &r, 1);
}

int number_set_remove(struct number_set *s, uint64_t first, uint64_t last)
{
	struct number_range rest[2];
	size_t i = find(s, first), end = i, n = 0;
	if (first > last)
		return 0;
	for (; end < s->count && s->ranges[end].first <= last; end++) {
		if (s->ranges[end].first < first)
			rest[n++] = (struct number_range){s->ranges[end].first, first - 1};
		if (s->ranges[end].last > last)
			rest[n++] = (struct number_range){last + 1, s->ranges[end].last};
	}
	return end == i ? 0 : splice(s, i, end - i, rest, n);
}

uint64_t number_set_size(const struct number_set *s)
{
	uint64_t n = 0;
	for (size_t i = 0; i < s->count; i++)
		n += s->ranges[i].last - s->ranges[i].first + 1;
	return n;
}
