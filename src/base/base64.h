/* SPDX-License-Identifier: MIT */
/* base64 with padding, RFC 4648. Decoding is strict. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>
#include <sys/types.h>

#include "base/text.h"

void base64_append(struct text *t, const void *data, size_t size);

/* Decodes into `out`, which has room for size / 4 * 3 bytes. Returns the number of bytes, or -EBADMSG. */
ssize_t base64_decode(const char *text, size_t size, void *out);

#endif
