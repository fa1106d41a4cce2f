/* SPDX-License-Identifier: MIT */
/* A command of Slurm for those who have nothing else to do: runs it and waits for its end, at most half a minute. */
#ifndef SLURM_SLURM_ASK_H
#define SLURM_SLURM_ASK_H

#include <stdint.h>

#include "base/text.h"

/* Start from {0}; text_finish(&a->out) releases it. */
struct slurm_answer {
	int result;      /* see slurm_command_fn; -ENOENT: there is no such program */
	struct text out; /* what it printed */
	char words[256]; /* the first line that it complained with */
};

/* NULL at the end of argv. Returns result. */
int slurm_ask(const char *const *argv, struct slurm_answer *ret);

#endif
