/* SPDX-License-Identifier: MIT */
#ifndef POOL_ALIGNMENT_H
#define POOL_ALIGNMENT_H

#include <stddef.h>

/* Rounded up, so that the next object is aligned for any type. */
static inline size_t alignment_round(size_t size)
{
	size_t unit = _Alignof(max_align_t);
	return (size + unit - 1) / unit * unit;
}

#endif
