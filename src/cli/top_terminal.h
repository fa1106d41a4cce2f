/* SPDX-License-Identifier: MIT */
/* The terminal of gpuq top: draws cells and reads keys. */
#ifndef CLI_TOP_TERMINAL_H
#define CLI_TOP_TERMINAL_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct screen;

/* Whether the terminal can be used; -EINVAL, with a message. */
int top_terminal_check(struct gd_error *err);
/* Whether a terminal with this name can move its cursor, according to the terminfo of this machine. */
bool top_terminal_is_known(const char *name);
/* Takes over the terminal. */
int top_terminal_open(struct gd_error *err);
/* Restores the terminal. May be called any number of times. */
void top_terminal_close(void);

/* changed: query the terminal for its size again. */
void top_terminal_size(bool changed, int *ret_rows, int *ret_columns);
void top_terminal_show(const struct screen *s);
/* The next key, as in view/top/top.h; -1: none. */
int top_terminal_key(void);

#endif
