/* SPDX-License-Identifier: MIT */
/*
 * Where a waiting `gpuq exec` stands, on standard error: one line that is rewritten on a terminal, and a new line now
 * and then anywhere else. Start from {0}.
 */
#ifndef CLI_EXEC_NOTICE_H
#define CLI_EXEC_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct exec_notice {
	bool quiet;
	bool told;  /* something was written */
	bool drawn; /* a line stands on the terminal, and the cursor in it */
	struct text last;
	uint64_t told_ns;
};

/* position: among the waiting jobs, 0 if it has none; words: why it waits. */
void exec_notice_waiting(struct exec_notice *n, uint64_t id, size_t position, const char *words);
/* Before anything else is written to the terminal. */
void exec_notice_clear(struct exec_notice *n);
void exec_notice_finish(struct exec_notice *n);

#endif
