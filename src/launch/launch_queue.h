/* SPDX-License-Identifier: MIT */
/*
 * The files that no worker has yet: in one list ("line") for any free GPU, or in one list per GPU if a strategy has
 * placed them. When a GPU has lost its last worker, the other GPUs take over its line.
 */
#ifndef LAUNCH_LAUNCH_QUEUE_H
#define LAUNCH_LAUNCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct launch_line {
	size_t *files; /* their numbers */
	size_t next, count, capacity;
};

/* Start from {0}. */
struct launch_queue {
	struct launch_line any; /* for any GPU */
	struct launch_line *lines;
	size_t num_lines; /* one per GPU; 0: the files are not placed */
};

/* A line per GPU, for files that are placed. -ENOMEM. */
int launch_queue_place(struct launch_queue *q, size_t num_gpus);
/*
 * Appends `order`, the numbers of `count` files, each to the line of its GPU: gpus[k] of order[k], 0…num_lines-1. gpus
 * NULL: they are for any GPU. -ENOMEM: none was added.
 */
int launch_queue_add(struct launch_queue *q, const size_t *order, const size_t *gpus, size_t count);
/* Puts back a file that was taken from a line: it becomes the first file of the line for any GPU. -ENOMEM. */
int launch_queue_put_back(struct launch_queue *q, size_t file);
/* Appends a file to one line. -ENOMEM. */
int launch_line_add(struct launch_line *line, size_t file);
void launch_queue_finish(struct launch_queue *q);

/* How many files are left. */
size_t launch_queue_left(const struct launch_queue *q);
/* The GPU is lost: any GPU may take the rest of its line. -ENOMEM: nothing is changed. */
int launch_queue_release(struct launch_queue *q, size_t line);

static inline bool launch_line_is_empty(const struct launch_line *line)
{
	return line->next == line->count;
}

#endif
