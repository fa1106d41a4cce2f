/* SPDX-License-Identifier: MIT */
/*
 * One command for each combination of parameters: `train.py --lr {lr}` with lr=0.1,0.01.
 *
 * Axes are crossed, the last one varies fastest. An axis has one name, or several whose values belong together (--zip,
 * a file). Only {NAME} of a known name is replaced, and not after '$'; all other braces stay. A value never becomes
 * code: a value with characters special to a shell is allowed only inside an argument, not in shell text
 * (sweep_template.c). Start from {0}.
 *
 *     sweep_add_param()…, sweep_add_file()… → sweep_read_files() → sweep_prepare()
 *         → sweep_fill() for each number below `count`
 */
#ifndef QUEUE_INPUT_SWEEP_H
#define QUEUE_INPUT_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/trust.h"

#define SWEEP_MAX_JOBS ((size_t)1000000)

struct sweep_axis {
	const char *file; /* read by sweep_read_files(); NULL: there is none, or it was read */
	char **names;
	size_t num_names;
	char **values; /* num_names for each row */
	size_t num_rows, values_capacity;
};

struct sweep {
	struct sweep_axis *axes;
	size_t num_axes, axes_capacity;
	size_t count; /* number of commands, after sweep_prepare() */
	/* The command: its words, or one word of shell text. */
	struct sweep_word *words;
	size_t num_words;
	struct text scratch;
};

/* "lr=0.1,0.01", "seed=1-5", "layers=2-10:4". -EINVAL, -ENOMEM, with a message. */
int sweep_add_param(struct sweep *s, const char *text, struct gd_error *err);
/* A CSV file: the first line has the names, each further line is one row of the axis. The path must outlive the sweep.
 */
int sweep_add_file(struct sweep *s, const char *path);
/* Called when all options are known, because --trust may follow --param-file. */
int sweep_read_files(struct sweep *s, enum trust_choice choice, struct gd_error *err);

/* zip: all axes that have a single name become one axis. Checks everything; the words must outlive the sweep. */
int sweep_prepare(struct sweep *s, bool zip, char **words, size_t num_words, struct gd_error *err);

/* Appends command number i. */
void sweep_fill(struct sweep *s, size_t i, struct text *command);

void sweep_finish(struct sweep *s);

/* Indices of an array, "1-10", "1-10:2" or "1,3,7"; returned in ascending order without duplicates. */
int sweep_parse_array(const char *text, struct id_list *ret, struct gd_error *err);

#endif
