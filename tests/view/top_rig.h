/* SPDX-License-Identifier: MIT */
/* gpuq top without a terminal: a model, the state of top, and the screen as text. One of each for every test. */
#ifndef TESTS_VIEW_TOP_RIG_H
#define TESTS_VIEW_TOP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "view/top/top.h"

struct top_rig {
	struct view_model *model;
	struct top top;
	struct screen screen;
	struct text text;
};

int top_rig_setup(void **state);
int top_rig_teardown(void **state);
#define top_rig_test(test) cmocka_unit_test_setup_teardown(test, top_rig_setup, top_rig_teardown)

/* A job of GPU id % 4 with one attempt, or none if it waits. */
void top_rig_put_job(struct top_rig *l, uint64_t id, enum view_job_state state, const char *command);
/* GPUs 0 to count - 1, with five minutes of samples. */
void top_rig_put_gpus(struct top_rig *l, int count);

/* Draws and returns the whole screen. Checks that no row is wider than the screen. Valid until the next call. */
const char *top_rig_draw(struct top_rig *l, int rows, int columns);
/* A row of the screen as it was drawn last, without spaces at its end. Valid until the next call. */
const char *top_rig_row(struct top_rig *l, int i);

/* Types these characters. */
void top_rig_keys(struct top_rig *l, const char *typed);

#define assert_shows(text, piece)                                                                                      \
	do {                                                                                                           \
		const char *shown_ = (text);                                                                           \
		if (!strstr(shown_, piece))                                                                            \
			fail_msg("'%s' is not on:\n%s", piece, shown_);                                                \
	} while (0)

#define assert_shows_not(text, piece)                                                                                  \
	do {                                                                                                           \
		const char *shown_ = (text);                                                                           \
		if (strstr(shown_, piece))                                                                             \
			fail_msg("'%s' is on:\n%s", piece, shown_);                                                    \
	} while (0)

#endif
