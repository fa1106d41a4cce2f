/* SPDX-License-Identifier: MIT */
/*
 * What a report tells, as numbers: a model of a queue, looked at over a span of time.
 *
 * Everything points into the model, which must stay as it is meanwhile. Times are
 * wall-clock milliseconds; what lies before `since_ms` is left out, or cut off there.
 */
#ifndef VIEW_REPORT_REPORT_FACTS_H
#define VIEW_REPORT_REPORT_FACTS_H

#include "base/arena.h"
#include "view/model/model.h"

/* One attempt on one GPU. */
struct report_span {
	int64_t start_ms, end_ms; /* end: now, while it runs */
	const struct view_job *job;
	const struct view_attempt *attempt;
	unsigned lane; /* spans of one lane do not overlap */
};

#define REPORT_NO_GPU (-1)

struct report_gpu {
	int id;           /* REPORT_NO_GPU: jobs that want none */
	const char *name; /* or NULL */
	struct report_span *spans;
	size_t num_spans; /* by start */
	unsigned num_lanes;
	size_t num_failed;
	int64_t busy_ms; /* with at least one job */
	int64_t peak_mem_mb, memory_total_mb;
	struct view_sample *samples; /* by time */
	size_t num_samples;
	int mean_util; /* -1: not known */
};

/* Some durations, in words. */
struct report_times {
	size_t count;
	int64_t total_ms, median_ms, p90_ms, longest_ms;
};

/* What a job waited for before it started. All but the last two are without the time of the last two. */
enum report_wait {
	REPORT_WAIT_ALL = 0, /* from submit to the first start */
	REPORT_WAIT_GPU,     /* a GPU with room, and its turn */
	REPORT_WAIT_AFTER,   /* the jobs it comes after */
	REPORT_WAIT_RETRY,   /* its next attempt; not until somebody asked for that */
	REPORT_WAIT_STILL,   /* has not started: until now */
	REPORT_WAIT_BEGIN,   /* its time to begin */
	REPORT_WAIT_HELD,    /* somebody to release it */
};
#define REPORT_WAITS 7

/* How many waited, from a moment on. */
struct report_depth {
	int64_t time_ms;
	size_t waiting;
};

struct report_facts {
	int64_t from_ms, to_ms, now_ms; /* from < to */
	bool files;                     /* jobs are files, and have no number that anybody knows; set by who draws */
	size_t num_jobs;
	size_t counts[VIEW_JOB_STATES];
	size_t num_attempts;
	struct report_gpu *gpus; /* by id; those that ran something or are there */
	size_t num_gpus, gpus_capacity;
	struct report_times waits[REPORT_WAITS];
	int64_t paused_ms; /* in which nothing was started */
	int64_t idle_ms;   /* of GPUs, while jobs waited that could have started */
	int64_t gpu_ms;    /* of all GPUs together: (to - from) × how many */
	int64_t busy_ms;
	struct report_depth *depth; /* by time */
	size_t num_depth;
	struct report_span *ends; /* ended attempts, one each, by end */
	size_t num_ends;
	const struct view_job **failed; /* newest first */
	size_t num_failed;
	struct report_span *longest; /* longest first */
	size_t num_longest;
	struct report_span *idle; /* attempts with GPUs that were idle for longer than wanted, the longest first */
	size_t num_idle;
	int64_t wasted_ms;            /* GPU time of all of them */
	struct report_span *measured; /* attempts whose energy is known, the most first */
	size_t num_measured;
	int64_t energy_j; /* of all of them */
	struct arena arena;
};

/* since_ms: 0 for all. 0 or -ENOMEM. */
int report_facts_init(struct report_facts *f, const struct view_model *m, int64_t since_ms, int64_t now_ms);
void report_facts_finish(struct report_facts *f);

/* Of `values`, which are sorted on the way. */
struct report_times report_times_of(int64_t *values, size_t count);

/* A part of report_facts_init(): orders `measured` and `idle`, sums them up. */
void report_cost_order(struct report_facts *f);
/* For how long the GPUs of an attempt were idle, together. */
int64_t report_idle_ms(const struct report_span *s);
/* A part of report_facts_init(): waits, depth, idle_ms. */
int report_facts_waiting(struct report_facts *f, const struct view_model *m, int64_t since_ms);
/* Whether a job has anything to do with the time from since_ms on. */
bool report_is_recent(const struct view_job *job, int64_t since_ms);

#endif
