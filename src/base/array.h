/* SPDX-License-Identifier: MIT */
/* Arrays that grow, and sorted arrays that are searched. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/*
 * Makes room for `need` elements in total. Returns 0 or -ENOMEM; nothing changes on
 * failure. The capacity at least doubles when it grows, so appending one by one is cheap.
 *
 *     if (array_reserve(list->items, &list->capacity, list->count + 1) < 0)
 *             return -ENOMEM;
 *     list->items[list->count++] = item;
 */
#define array_reserve(array, capacity, need) array_reserve_bytes(&(array), (capacity), (need), sizeof(*(array)))

/* The slow path of array_reserve(): reallocates. array_pointer: the address of the pointer to the first element.
 */
int array_grow(void *array_pointer, size_t *capacity, size_t need, size_t element_size);

static inline int array_reserve_bytes(void *array_pointer, size_t *capacity, size_t need, size_t element_size)
{
	return need <= *capacity ? 0 : array_grow(array_pointer, capacity, need, element_size);
}

/*
 * Compares a key with an element, as for bsearch(): negative if the element comes after the key, 0 if they are equal,
 * else positive.
 */
typedef int array_compare_fn(const void *key, const void *element);

/* The index of the first element of a sorted array that is not before the key; `count` if all are before it. */
static inline size_t array_lower_bound(
	const void *key, const void *array, size_t count, size_t element_size, array_compare_fn *compare)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare(key, (const char *)array + middle * element_size) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
