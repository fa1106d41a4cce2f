/* SPDX-License-Identifier: MIT */
/*
 * Commands that are separate programs, most of them because they need libraries that gpuq does
 * not link: `gpuq web` replaces itself with gpuq-web, which is installed in libexec or next to
 * gpuq.
 */
#ifndef CLI_SUBPROGRAM_H
#define CLI_SUBPROGRAM_H

#include <stddef.h>

#include "gpu_dispatch.h"

/* Tells a program which gpuq it belongs to. subprogram_enter() removes it from the environment. */
#define SUBPROGRAM_MARK "GPUQ_EXECUTED_BY"

/*
 * Replaces this process with the program, with the same arguments. Returns only on failure:
 * the exit code, after printing the reason. package: the build dependency of the program,
 * for that message.
 */
int subprogram_become(const char *name, const char *package, char **argv);

/* The path of the program, or of another helper of gpuq; see helper_find(). */
int subprogram_find(const char *name, char *ret, size_t size, struct gd_error *err);

/*
 * Call first in such a program: finds out which gpuq it belongs to. 0, or, if the
 * program was started by hand, the exit code after printing an error.
 */
int subprogram_enter(const char *command);

/* The gpuq to execute if another process is needed. */
const char *subprogram_gpuq(void);

#endif
