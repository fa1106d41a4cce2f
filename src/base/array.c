/* SPDX-License-Identifier: MIT */
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Size of the first allocation: small, because there may be a million arrays with few elements. */
#define FIRST_BYTES 32

int array_grow(void *array_pointer, size_t *capacity, size_t need, size_t element_size)
{
	size_t larger = *capacity ? *capacity * 2 : FIRST_BYTES / element_size;
	if (larger < need)
		larger = need;
	/* Copied byte by byte, because a void ** must not alias a pointer of another type. */
	void *array;
	memcpy(&array, array_pointer, sizeof(array));
	array = reallocarray(array, larger, element_size);
	if (!array)
		return -ENOMEM;
	memcpy(array_pointer, &array, sizeof(array));
	*capacity = larger;
	return 0;
}
