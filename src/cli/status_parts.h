/* SPDX-License-Identifier: MIT */
/* Shared by the files of `gpuq status`, and by `gpuq info` and `gpuq why`. No other file includes this. */
#ifndef CLI_STATUS_PARTS_H
#define CLI_STATUS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "cli/job_list.h"
#include "cli/queue_choice.h"
#include "queue/input/job_selection.h"
#include "queue/journal/follow.h"
#include "queue/runner/verdicts.h"

struct status {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids; /* ids of the selection */
	bool json, watch, all;
	unsigned states; /* bits of enum job_state; 0: all */
	const char *name;
	uint64_t since_ms; /* 0: any age */
	bool told_bad_lines;
	struct follow *queues; /* one queue, or with --all every queue of the user */
	size_t num_queues;
	struct gd_error err;
};

/* Output buffer, written when it is large. */
struct status_output {
	struct text text;
	size_t num_objects;
	int error;
};
#define STATUS_FLUSH_ABOVE ((size_t)1 << 20)
/* Writes the text if it has more than `above` bytes. */
void status_flush(struct status_output *o, size_t above);

/* One queue, and its jobs that are shown. */
struct status_queue {
	const struct follow *follow;
	struct job_list jobs;
	struct verdicts *verdicts; /* NULL: no job is waiting */
	const char *label;         /* NULL: the user knows which queue it is */
};

/* status_json.c: appends the jobs to an open array. queue: value of a member that names the queue; NULL: no such
 * member. */
int status_put_json(struct status_output *o, const struct status_queue *q, const char *queue);

/* status_json.c: `position`, `waits` and `expected_start` of a job. v: NULL if nothing is known about its wait. */
int status_put_wait(struct text *t, const struct job *job, struct verdicts *v);

/* status_lines.c: a line per job and one with counts. rows: height of the screen; 0: not watching. */
int status_put_lines(struct status_output *o, struct status_queue *q, size_t rows);

#endif
