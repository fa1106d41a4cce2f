/* SPDX-License-Identifier: MIT */
/* A terminal as gpuq top uses it: cells go out, keys come in. */
#ifndef CLI_TOP_TERMINAL_H
#define CLI_TOP_TERMINAL_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct screen;

/* Whether there is one that can be used; -EINVAL, with words. */
int top_terminal_check(struct gd_error *err);
/* Whether terminals of this name can move their cursor, as far as anybody knows here. */
bool top_terminal_is_known(const char *name);
/* Takes it over. */
int top_terminal_open(struct gd_error *err);
/* Gives it back as it was; any number of times. */
void top_terminal_close(void);

/* Also asks the terminal for its size when it has changed. */
void top_terminal_size(bool changed, int *ret_rows, int *ret_columns);
void top_terminal_show(const struct screen *s);
/* The next key, as view/top/top.h has them; -1: none is waiting. */
int top_terminal_key(void);

#endif
