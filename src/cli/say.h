/* SPDX-License-Identifier: MIT */
/* Messages of gpuq for the user, besides its output: one line each on standard error, "gpuq: …". */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "gpu_dispatch.h"

void say(const char *format, ...) GD_PRINTF(1, 2);

/* From now on passes each line, with its newline, to fn instead of standard error; NULL: back to standard error. */
typedef void say_line_fn(void *context, const char *line, size_t size);
void say_divert(say_line_fn *fn, void *context);

/* Prints "gpuq: warning: …" for each warning of a list. */
void say_warnings(const struct gd_gpu_list *list);

/* Prints the error; returns the exit code: 2 for wrong usage or missing GPUs, else 1. */
int say_error(const struct gd_error *err);

#endif
