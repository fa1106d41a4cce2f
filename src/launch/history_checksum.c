/* SPDX-License-Identifier: MIT */
#include "launch/history_checksum.h"

#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"

#define MEMBER   ",\"c\":\""
#define DIGITS   8
#define ALL_SIZE (sizeof(MEMBER) - 1 + DIGITS + 2) /* with "} */

static void format(const char *bytes, size_t size, char ret[DIGITS + 1])
{
	snprintf(ret, DIGITS + 1, "%08x", (unsigned)crc32c(0, bytes, size));
}

void history_checksum_put(struct text *t, size_t from)
{
	char digits[DIGITS + 1];
	if (text_error(t))
		return;
	t->length--; /* the closing brace */
	format(t->data + from, t->length - from, digits);
	text_appendf(t, MEMBER "%s\"}", digits);
}

enum history_checksum history_checksum_check(const char *line, size_t size)
{
	if (size > 0 && line[size - 1] == '\n')
		size--;
	if (size < ALL_SIZE)
		return HISTORY_CHECKSUM_NONE;
	const char *member = line + size - ALL_SIZE;
	const char *digits = member + sizeof(MEMBER) - 1;
	if (memcmp(member, MEMBER, sizeof(MEMBER) - 1) != 0 || memcmp(digits + DIGITS, "\"}", 2) != 0)
		return HISTORY_CHECKSUM_NONE;
	char right[DIGITS + 1];
	format(line, size - ALL_SIZE, right);
	return memcmp(digits, right, DIGITS) == 0 ? HISTORY_CHECKSUM_RIGHT : HISTORY_CHECKSUM_WRONG;
}
