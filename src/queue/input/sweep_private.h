/* SPDX-License-Identifier: MIT */
/* Shared by the source files of the sweep. Only sweep*.c include this. */
#ifndef QUEUE_INPUT_SWEEP_PRIVATE_H
#define QUEUE_INPUT_SWEEP_PRIVATE_H

#include <stdint.h>

#include "queue/input/sweep.h"

/* A part of a word: text, or the value of a parameter. */
struct sweep_piece {
	const char *text;
	size_t size;
	struct sweep_axis *axis; /* NULL: text */
	size_t column;
};

struct sweep_word {
	struct sweep_piece *pieces;
	size_t count, capacity;
	bool has_values;
};

/* Takes ownership of the value, even on failure. */
int sweep_axis_add(struct sweep_axis *a, char *value);
void sweep_axis_finish(struct sweep_axis *a);

/* A range of numbers, "1-5" or "1-9:2"; false: the text is something else. */
bool sweep_parse_range(const char *text, size_t size, uint64_t *ret_from, uint64_t *ret_to, uint64_t *ret_step);

/* sweep_template.c: finds the parameters in the words and checks that their positions are safe. */
int sweep_compile(struct sweep *s, char **words, size_t num_words, struct gd_error *err);

#endif
