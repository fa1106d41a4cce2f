/* SPDX-License-Identifier: MIT */
/*
 * Tasks and results between gpuq map and its workers: a message with items, and its answer.
 *
 * Both come from a process of ours, but a worker may be damaged: sizes are checked before use.
 */
#ifndef LAUNCH_ITEMS_TASK_H
#define LAUNCH_ITEMS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "gpu_dispatch.h"

#define ITEMS_LINE_MAX ((size_t)64 << 20) /* bytes of a program's answer */

/* The codes with which a worker fails a message. */
enum items_code {
	ITEMS_FAILED = -5,         /* -EIO: the program answered that it failed */
	ITEMS_OUT_OF_MEMORY = -12, /* -ENOMEM: the program answered that it is out of memory */
	ITEMS_NOT_BEGUN = -11,     /* -EAGAIN: the program ended at another message, which is to blame */
	ITEMS_LOST = -32,          /* -EPIPE: the program ended or broke the protocol at this message */
};

struct items_task {
	uint32_t count;
	bool alone;         /* no other message is with the program at the same time */
	const char *values; /* the items as a JSON array */
	size_t size;
};

/* Begins a task in `t`, which is empty: append the values with json_put_…(t, NULL, …), then seal it. */
void items_task_begin(struct text *t);
void items_task_seal(struct text *t, uint32_t count, bool alone);
/* -EBADMSG if the bytes are not a task. */
int items_task_read(const struct gd_bytes *bytes, struct items_task *ret);

/* Adds the answer to the next item: its result as JSON, or the reason for its failure as text. */
void items_answer_put(struct text *t, bool failed, const void *data, size_t size);

struct items_answer {
	bool failed;
	const char *data;
	size_t size;
};

/* Removes the next answer from `bytes`. Returns 1, 0 at the end, or -EBADMSG. */
int items_answer_next(struct gd_bytes *bytes, struct items_answer *ret);

#endif
