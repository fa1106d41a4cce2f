/* SPDX-License-Identifier: MIT */
/*
 * Which sequence numbers of a journal have been read, and which are missing between them.
 *
 * Ranges are disjoint, ascending and not empty. Numbers begin with 1.
 */
#ifndef QUEUE_JOURNAL_NUMBERS_H
#define QUEUE_JOURNAL_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct number_range {
	uint64_t first, last;
};

struct number_set {
	struct number_range *ranges;
	size_t count, capacity;
};

void number_set_finish(struct number_set *s);
/* 0 or -ENOMEM. Ranges may come in any order and overlap. */
int number_set_add(struct number_set *s, uint64_t first, uint64_t last);
/* Splitting a range may need memory: 0 or -ENOMEM. */
int number_set_remove(struct number_set *s, uint64_t first, uint64_t last);
bool number_set_has(const struct number_set *s, uint64_t n);
/* The total number of elements in all ranges. */
uint64_t number_set_size(const struct number_set *s);

#endif
