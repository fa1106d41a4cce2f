/* SPDX-License-Identifier: MIT */
/* What the files of `gpuq status` share, and `gpuq info` with them. Nobody else includes this. */
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
	struct id_list ids; /* of the selection */
	bool json, watch, all;
	unsigned states; /* bits; 0: all */
	const char *name;
	uint64_t since_ms; /* 0: any age */
	bool told_bad_lines;
	struct follow *queues; /* one, or with --all each of the user */
	size_t num_queues;
	struct gd_error err;
};

/* What is printed; written out when there is much of it. */
struct status_output {
	struct text text;
	size_t num_objects;
	int error;
};
#define STATUS_FLUSH_ABOVE ((size_t)1 << 20)
/* Writes the text out if there is more of it than that. */
void status_flush(struct status_output *o, size_t above);

/* One queue and those of its jobs that are shown. */
struct status_queue {
	const struct follow *follow;
	struct job_list jobs;
	struct verdicts *verdicts; /* NULL: no job waits */
	const char *label;         /* NULL: the user knows which queue it is */
};

/* status_json.c: the jobs as items of an array that is open. queue: a member that names the queue; NULL: none. */
int status_put_json(struct status_output *o, const struct status_queue *q, const char *queue);

/* status_json.c: `position`, `waits` and `expected_start` of a job. v: NULL if nothing is known of its wait. */
int status_put_wait(struct text *t, const struct job *job, struct verdicts *v);

/* status_lines.c: a line per job and one that counts them. rows: how many of the screen; 0: it is not watched. */
int status_put_lines(struct status_output *o, struct status_queue *q, size_t rows);

#endif
