/* SPDX-License-Identifier: MIT */
/* The Range header of a request for a part of a file: pure code. */
#ifndef VIEW_WEB_WEB_RANGE_H
#define VIEW_WEB_WEB_RANGE_H

#include <stdint.h>

/*
 * The bytes of a file of `size` bytes that a Range header requests: [*ret_from, *ret_to).
 * The header is "bytes=5-9", "bytes=5-" or "bytes=-100"; NULL requests the end of the file. A range longer than `limit`
 * is shortened: "bytes=5-" to its first bytes, "bytes=-100" and NULL to their last ones. -ERANGE: the range begins at
 * or after the end. -EINVAL: not a range, or several.
 */
int web_range_parse(const char *header, uint64_t size, uint64_t limit, uint64_t *ret_from, uint64_t *ret_to);

#endif
