/* SPDX-License-Identifier: MIT */
/* Seals the lines of standard input like those of a journal, for benchmarks that write large ones. */
#include <stdio.h>
#include <stdlib.h>

#include "queue/journal/seal.h"

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	struct text t = {0};
	uint64_t n = 1;
	for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
		text_clear(&t);
		seal_append(&t, line, (size_t)size, n++);
		if (text_error(&t) || fwrite(t.data, 1, t.length, stdout) != t.length)
			return 1;
	}
	free(line);
	text_finish(&t);
	return fflush(stdout) == 0 ? 0 : 1;
}
