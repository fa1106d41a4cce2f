/* SPDX-License-Identifier: MIT */
#include "queue/input/id_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"

int id_list_add(struct id_list *l, uint64_t id)
{
	if (array_reserve(l->ids, &l->capacity, l->count + 1) < 0)
		return -ENOMEM;
	l->ids[l->count++] = id;
	return 0;
}

void id_list_finish(struct id_list *l)
{
	free(l->ids);
	*l = (struct id_list){0};
}

static int parse_id(const char *text, char **ret_end, uint64_t *ret)
{
	errno = 0;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	unsigned long long id = strtoull(text, ret_end, 10);
	if (errno || id == 0 || id > INT64_MAX)
		return -EINVAL;
	*ret = id;
	return 0;
}

int id_list_parse(const char *text, struct id_list *l, struct gd_error *err)
{
	const char *p = text;
	for (;;) {
		char *end;
		uint64_t from, to;
		int r = parse_id(p, &end, &from);
		to = from;
		if (r == 0 && *end == '-')
			r = parse_id(end + 1, &end, &to);
		if (r < 0 || (*end && *end != ',') || to < from || to - from > 10000000)
			return error_set(
				err, -EINVAL, "job '%s': not an id; ids are numbers, as 12, 12-15 or 12,14", text);
		for (uint64_t id = from; id <= to; id++)
			if (id_list_add(l, id) < 0)
				return error_set(err, -ENOMEM, "job '%s': out of memory", text);
		if (!*end)
			return 0;
		p = end + 1;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void id_list_sort(struct id_list *l)
{
	size_t count = 0;
	if (l->count)
		qsort(l->ids, l->count, sizeof(*l->ids), compare);
	for (size_t i = 0; i < l->count; i++)
		if (i == 0 || l->ids[i] != l->ids[i - 1])
			l->ids[count++] = l->ids[i];
	l->count = count;
}

size_t id_list_find(const struct id_list *l, uint64_t id)
{
	size_t i = array_lower_bound(&id, l->ids, l->count, sizeof(*l->ids), compare);
	return i < l->count && l->ids[i] == id ? i : SIZE_MAX;
}
