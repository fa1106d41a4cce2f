/* SPDX-License-Identifier: MIT */
/* What gpuq tells people besides its output: on standard error, a line each, "gpuq: …". */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "gpu_dispatch.h"

void say(const char *format, ...) GD_PRINTF(1, 2);

/* From now on each line goes there, with its newline, instead of standard error; NULL: to standard error again. */
typedef void say_line_fn(void *context, const char *line, size_t size);
void say_divert(say_line_fn *fn, void *context);

/* "gpuq: warning: …" for each warning of a list. */
void say_warnings(const struct gd_gpu_list *list);

/* Says what went wrong; returns the exit code: 2 for wrong usage or GPUs that are not there, else 1. */
int say_error(const struct gd_error *err);

#endif
