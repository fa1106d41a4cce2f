/* SPDX-License-Identifier: MIT */
/*
 * The live panel as lines of text: pure code, a model and a size in, lines out.
 *
 * Every line is narrower than the terminal: a character in the last column leaves a terminal with a pending wrap.
 * Foreign text cannot break out of its column (see base/display.h). The panel is readable without color: bars end in
 * thinner lines, statuses are words, or signs explained by a legend.
 */
#ifndef VIEW_PANEL_LAYOUT_H
#define VIEW_PANEL_LAYOUT_H

#include "base/text.h"
#include "base/units.h"
#include "view/model/model.h"

struct layout_options {
	size_t width, height; /* of the terminal */
	bool color;
	uint64_t now_ns;
};

/* Appends the lines, each with a newline; at most height - 1. Returns their number. */
size_t layout_panel(struct text *t, const struct view_model *m, const struct layout_options *o);

/* One line without a newline, for output without a panel: "gpuq run: 53%, 1,066/2,000 done, 3 failed, …". */
void layout_line(struct text *t, const struct view_model *m, uint64_t now_ns);

/* 1234567 as "1,234,567". Returns buf. */
#define LAYOUT_NUMBER_ROOM 32
const char *layout_number(uint64_t n, char buf[LAYOUT_NUMBER_ROOM]);
/* "4.2/s", "12/min", "3.4/h", "5.2M/s"; "" for 0. Returns buf. */
const char *layout_rate(double per_second, char buf[LAYOUT_NUMBER_ROOM]);
/* A growing time: below ten seconds in whole seconds, because tenths would flicker. Returns buf. */
const char *layout_time(uint64_t ns, char buf[UNITS_ROOM]);

#endif
