/* SPDX-License-Identifier: MIT */
#include "launch/launch_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int launch_queue_place(struct launch_queue *q, size_t num_gpus)
{
	q->lines = calloc(num_gpus + 1, sizeof(*q->lines));
	if (!q->lines)
		return -ENOMEM;
	q->num_lines = num_gpus;
	return 0;
}

/* Makes space for `more` files. Reclaims the space of files that have left once they are the majority. */
static int line_reserve(struct launch_line *line, size_t more)
{
	if (line->next > line->count / 2) {
		memmove(line->files, line->files + line->next, (line->count - line->next) * sizeof(*line->files));
		line->count -= line->next;
		line->next = 0;
	}
	return array_reserve(line->files, &line->capacity, line->count + more);
}

int launch_queue_add(struct launch_queue *q, const size_t *order, const size_t *gpus, size_t count)
{
	if (!gpus && line_reserve(&q->any, count) < 0)
		return -ENOMEM;
	for (size_t g = 0; gpus && g < q->num_lines; g++) {
		size_t more = 0;
		for (size_t k = 0; k < count; k++)
			more += gpus[k] == g;
		if (line_reserve(&q->lines[g], more) < 0)
			return -ENOMEM;
	}
	for (size_t k = 0; k < count; k++) {
		struct launch_line *line = gpus ? &q->lines[gpus[k]] : &q->any;
		line->files[line->count++] = order[k];
	}
	return 0;
}

int launch_line_add(struct launch_line *line, size_t file)
{
	if (line_reserve(line, 1) < 0)
		return -ENOMEM;
	line->files[line->count++] = file;
	return 0;
}

int launch_queue_put_back(struct launch_queue *q, size_t file)
{
	if (q->any.next == 0)
		return launch_queue_add(q, &file, NULL, 1);
	q->any.files[--q->any.next] = file;
	return 0;
}

void launch_queue_finish(struct launch_queue *q)
{
	free(q->any.files);
	for (size_t g = 0; g < q->num_lines; g++)
		free(q->lines[g].files);
	free(q->lines);
	*q = (struct launch_queue){0};
}

size_t launch_queue_left(const struct launch_queue *q)
{
	size_t left = q->any.count - q->any.next;
	for (size_t g = 0; g < q->num_lines; g++)
		left += q->lines[g].count - q->lines[g].next;
	return left;
}

int launch_queue_release(struct launch_queue *q, size_t line)
{
	struct launch_line *from = &q->lines[line];
	if (launch_line_is_empty(from))
		return 0;
	int r = launch_queue_add(q, from->files + from->next, NULL, from->count - from->next);
	if (r == 0)
		from->next = from->count;
	return r;
}
