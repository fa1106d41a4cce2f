/* SPDX-License-Identifier: MIT */
/* Runs a Slurm command synchronously: waits for its end, at most half a minute. */
#ifndef SLURM_SLURM_ASK_H
#define SLURM_SLURM_ASK_H

#include <stdint.h>

#include "base/text.h"

/* Start from {0}; text_finish(&a->out) releases it. */
struct slurm_answer {
	int result;      /* see slurm_command_fn; -ENOENT: program not found */
	struct text out; /* what it printed */
	char words[256]; /* the first line of its standard error */
};

/* argv ends with NULL. Returns result. */
int slurm_ask(const char *const *argv, struct slurm_answer *ret);

#endif
