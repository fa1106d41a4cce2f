/* SPDX-License-Identifier: MIT */
/*
 * Shows on standard error what `gpuq exec` waits for: one line that is redrawn on a terminal, otherwise a new line
 * from time to time. Start from {0}.
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
	bool drawn; /* a line is on the terminal, with the cursor in it */
	struct text last;
	uint64_t told_ns;
};

/* position: among the waiting jobs, 0 if unknown; words: why it waits. */
void exec_notice_waiting(struct exec_notice *n, uint64_t id, size_t position, const char *words);
/* Call before anything else is written to the terminal. */
void exec_notice_clear(struct exec_notice *n);
void exec_notice_finish(struct exec_notice *n);

#endif
