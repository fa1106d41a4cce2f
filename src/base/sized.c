/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

#define SIZE_MOST 65536 /* larger: the size was not set */

static size_t stated_size(const void *from)
{
	size_t size;
	memcpy(&size, from, sizeof(size));
	return size;
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

int sized_read(void *ret, size_t size, const void *from, const char *name, struct gd_error *err)
{
	if (!from)
		return error_set(err, -EINVAL, "struct %s is missing (NULL)", name);
	size_t given = stated_size(from);
	/* Every such struct is aligned like a pointer, so in every version its size is a multiple of a pointer's. */
	if (given < sizeof(size_t) || given > SIZE_MOST || given % sizeof(void *) != 0)
		return error_set(
			err, -EINVAL, "the size in struct %s is %zu; set it to sizeof(struct %s)", name, given, name);
	if (given > size && !is_zero((const unsigned char *)from + size, given - size))
		return error_set(err, -E2BIG,
			"struct %s has a field set that this version of the library (%s) does not know; use a newer library, or leave the field zero",
			name, GD_VERSION);
	size_t common = given < size ? given : size;
	memset(ret, 0, size);
	memcpy(ret, from, common);
	memcpy(ret, &size, sizeof(size));
	return 0;
}

void sized_write(void *ret, size_t size, const void *from, size_t from_size)
{
	size_t common = size < from_size ? size : from_size;
	memcpy(ret, from, common);
	memset((char *)ret + common, 0, size - common);
	if (size >= sizeof(common))
		memcpy(ret, &common, sizeof(common));
}
