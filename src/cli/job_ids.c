/* SPDX-License-Identifier: MIT */
#include "cli/job_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static int parse_id(const char *text, char **ret_end, uint64_t *ret)
{
	errno = 0;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	unsigned long long id = strtoull(text, ret_end, 10);
	if (errno || id == 0 || id > INT64_MAX)
		return -EINVAL;
	*ret = id;
	return 0;
}

int job_ids_parse(const char *text, struct id_list *ids, struct gd_error *err)
{
	const char *p = text;
	for (;;) {
		char *end;
		uint64_t from, to;
		int r = parse_id(p, &end, &from);
		to = from;
		if (r == 0 && *end == '-')
			r = parse_id(end + 1, &end, &to);
		if (r < 0 || (*end && *end != ',') || to < from || to - from > 10000000)
			return error_set(
				err, -EINVAL, "job '%s': not an id; ids are numbers, as 12, 12-15 or 12,14", text);
		for (uint64_t id = from; id <= to; id++)
			if (id_list_add(ids, id) < 0)
				return error_set(err, -ENOMEM, "job '%s': out of memory", text);
		if (!*end)
			return 0;
		p = end + 1;
	}
}
