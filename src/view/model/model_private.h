/* SPDX-License-Identifier: MIT */
/* The parts of a model, for its implementation files. */
#ifndef VIEW_MODEL_MODEL_PRIVATE_H
#define VIEW_MODEL_MODEL_PRIVATE_H

#include "view/model/model.h"

/* The counts at one moment: rates are differences between two marks. */
struct view_mark {
	uint64_t time_ns;
	uint64_t ends;
	double amount;
};

#define VIEW_MARKS 64 /* about a second apart */

struct view_pace {
	struct view_mark first; /* the first mark ever put */
	struct view_mark last;
	uint64_t ended_ns, advanced_ns; /* when an end, or more amount, was last seen */
	struct view_mark marks[VIEW_MARKS];
	size_t num_marks; /* marks ever made */
};

struct view_gpu_row {
	struct view_gpu gpu;
	char text[];
};

struct view_ring {
	int gpu_id;
	size_t count; /* samples ever put */
	struct view_sample samples[];
};

/* One allocation each: the job, then its attempts, lists and strings. */
struct view_entry {
	struct view_job job;
	size_t position; /* in the order by id */
};

/*
 * Jobs by id. [0, sorted) is in order; jobs that were put out of order come after it. They are sorted only for a query,
 * so that any sequence of changes is cheap.
 */
struct view_by_id {
	struct view_entry **entries;
	size_t count;
	size_t sorted;
	size_t capacity;
};

struct view_model {
	uint64_t version;
	size_t history;

	struct view_work work;
	char *work_text;
	struct view_pace pace;

	struct view_gpu_row **gpus; /* by id, then slot */
	size_t num_gpus, gpus_capacity;
	struct view_ring **rings; /* by id */
	size_t num_rings, rings_capacity;

	struct view_run **runs; /* by PID; one allocation each, with its list and strings */
	size_t num_runs;
	struct view_delay *pauses;
	size_t num_pauses;

	struct view_by_id *by_id;
	struct view_entry **table; /* open addressing; `room` is a power of two */
	size_t table_room;
	uint64_t seed; /* of the table's hashes */
	size_t num_jobs;
	size_t counts[VIEW_JOB_STATES];
	uint64_t max_number;
	uint64_t jobs_version;
};

void view_gpus_finish(struct view_model *m);
void view_runs_finish(struct view_model *m);
void view_jobs_finish(struct view_model *m);
/* All jobs by id; view_num_jobs() of them. */
struct view_entry **view_jobs_in_order(const struct view_model *m);

/* For a block that holds a struct and its strings. NULL takes no bytes and stays NULL. */
size_t view_string_room(const char *string);
const char *view_string_put(char **at, const char *string);
bool view_string_equal(const char *a, const char *b);

#endif
