/* SPDX-License-Identifier: MIT */
#include "queue/input/id_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

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
