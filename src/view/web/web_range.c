/* SPDX-License-Identifier: MIT */
#include "view/web/web_range.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int parse_number(const char **at, uint64_t *ret)
{
	char *end;
	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	errno = 0;
	*ret = strtoull(*at, &end, 10);
	*at = end;
	return errno ? -EINVAL : 0;
}

int web_range_parse(const char *header, uint64_t size, uint64_t limit, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t from, last;
	if (!header)
		header = "bytes=-18446744073709551615";
	if (strncmp(header, "bytes=", 6) != 0)
		return -EINVAL;
	const char *p = header + 6;
	if (*p == '-') {
		p++;
		if (parse_number(&p, &last) < 0 || *p)
			return -EINVAL;
		if (last > limit)
			last = limit;
		*ret_from = last < size ? size - last : 0;
		*ret_to = size;
		return 0;
	}
	if (parse_number(&p, &from) < 0 || *p++ != '-')
		return -EINVAL;
	last = UINT64_MAX;
	if (*p && (parse_number(&p, &last) < 0 || *p || last < from))
		return -EINVAL;
	if (from >= size)
		return -ERANGE;
	if (last >= size)
		last = size - 1;
	*ret_from = from;
	*ret_to = last - from >= limit ? from + limit : last + 1;
	return 0;
}
