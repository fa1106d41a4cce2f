/* SPDX-License-Identifier: MIT */
#include "cli/done_line.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_IDS   8  /* written one by one */
#define MOST_PARTS 24 /* ids and ranges */

/* How many consecutive ids begin at `begin`. */
static size_t run_length(const struct id_list *ids, size_t begin)
{
	size_t n = 1;
	while (begin + n < ids->count && ids->ids[begin + n] == ids->ids[begin] + n)
		n++;
	return n;
}

void done_line_print(const char *done, const struct id_list *ids)
{
	size_t parts = 0;
	if (ids->count == 1) {
		printf("%s job %" PRIu64 "\n", done, ids->ids[0]);
		return;
	}
	printf("%s %zu jobs", done, ids->count);
	for (size_t i = 0; i < ids->count; parts++) {
		size_t length = ids->count > MOST_IDS ? run_length(ids, i) : 1;
		if (parts == MOST_PARTS) {
			fputs(", …", stdout);
			break;
		}
		printf("%s%" PRIu64, parts ? ", " : ": ", ids->ids[i]);
		if (length > 1)
			printf("-%" PRIu64, ids->ids[i + length - 1]);
		i += length;
	}
	putchar('\n');
}
