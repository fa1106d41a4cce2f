/* SPDX-License-Identifier: MIT */
/*
 * Colors, signs and names of states: one table for the panel, top, the page, the report and `gpuq status`.
 *
 * A color always comes with a word or a sign, so that nothing depends on distinguishing colors.
 * Terminals have the 16 colors that the user's theme defines; pages have one value for light and one for dark.
 */
#ifndef VIEW_MODEL_PALETTE_H
#define VIEW_MODEL_PALETTE_H

#include "base/text.h"
#include "view/model/model.h"

enum palette_color {
	PALETTE_PLAIN = 0,
	PALETTE_GRAY,
	PALETTE_BLUE,
	PALETTE_GREEN,
	PALETTE_RED,
	PALETTE_YELLOW,
	PALETTE_MAGENTA,
	PALETTE_CYAN,
};
#define PALETTE_COLORS 8

/* The escape sequence that begins the color; "" for PALETTE_PLAIN. "\033[0m" ends it. */
const char *palette_escape(enum palette_color color);

enum palette_color palette_of_job(enum view_job_state state);
enum palette_color palette_of_gpu(enum view_gpu_status status);
/* "●" and the like: one column. */
const char *palette_sign_of_gpu(enum view_gpu_status status);

/* "running" or, for some running jobs: "ending", "paused", "GPU idle". And its color. */
const char *palette_job_word(const struct view_job *job);
enum palette_color palette_color_of(const struct view_job *job);

/* Style sheet: the custom properties --pending, --running, … --memory, for light and for dark. */
void palette_put_css(struct text *t);

#endif
