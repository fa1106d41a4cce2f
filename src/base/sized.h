/* SPDX-License-Identifier: MIT */
/*
 * Structs of the public API that begin with their size, and may have been compiled
 * against an older or a newer version of the header than this library.
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stddef.h>

#include "gpu_dispatch.h"

/*
 * Copies the caller's struct `from`, whose first member is its size, into *ret of
 * `size` bytes. Fields that the caller does not know are zero, and the size is set
 * to `size`. -EINVAL: `from` is NULL or its size was not set; -E2BIG: the caller has
 * set a field that this library does not know. *ret is untouched on failure. `name` is
 * the struct's, for the message.
 */
int sized_read(void *ret, size_t size, const void *from, const char *name, struct gd_error *err);

/*
 * Copies `from`, a struct of from_size bytes whose first member is its size, into the caller's *ret of `size` bytes.
 * Fields that the caller does not know are omitted, and fields that this library does not know are zero. The size
 * member is set to the number of bytes that were filled in.
 */
void sized_write(void *ret, size_t size, const void *from, size_t from_size);

/* For every public struct that begins with its size: the last member ends where the struct does. */
#define SIZED_NO_TAIL(type, last)                                                                                      \
	_Static_assert(offsetof(struct type, last) + sizeof(((struct type *)0)->last) == sizeof(struct type),          \
		"struct " #type " has padding at its end; garbage there would be taken for a later field")

#endif
