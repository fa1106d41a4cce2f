/* SPDX-License-Identifier: MIT */
/*
 * Commands that are programs of their own, as they link more than gpuq does:
 * `gpuq web` executes gpuq-web, which lies beside gpuq or where it was installed.
 */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "gpu_dispatch.h"

/*
 * Becomes that program, with the same arguments; returns only on failure: an exit code, and it has been said.
 * `package`: what it needs to be built, for the words.
 */
int program_become(const char *name, const char *package, char **argv);

/*
 * In such a program, first of all: learns which gpuq it belongs to. Where it was started by hand, says so and
 * returns an exit code; else 0.
 */
int program_enter(const char *command);

/* The gpuq to execute when there is need for another one. */
const char *program_gpuq(void);

#endif
