/* SPDX-License-Identifier: MIT */
/* A list of job ids. Start from {0}. */
#ifndef QUEUE_INPUT_ID_LIST_H
#define QUEUE_INPUT_ID_LIST_H

#include <stddef.h>
#include <stdint.h>

struct id_list {
	uint64_t *ids;
	size_t count, capacity;
};

int id_list_add(struct id_list *l, uint64_t id);
void id_list_finish(struct id_list *l);

/* Sorts the ids and removes duplicates. */
void id_list_sort(struct id_list *l);

/* Position in a list of ascending ids, or SIZE_MAX. */
size_t id_list_find(const struct id_list *l, uint64_t id);

#endif
