/* SPDX-License-Identifier: MIT */
/*
 * The GPUs of the panel: a table with a line for each or, if there are more GPUs than lines, several narrow tables side
 * by side below a legend.
 */
#ifndef VIEW_PANEL_GPU_TABLE_H
#define VIEW_PANEL_GPU_TABLE_H

#include "view/panel/layout.h"

/* Appends at most `lines` lines, each with a newline. Returns their number. */
size_t gpu_table_append(struct text *t, const struct view_model *m, const struct layout_options *o, size_t lines);

#endif
