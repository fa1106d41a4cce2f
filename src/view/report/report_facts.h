/* SPDX-License-Identifier: MIT */
/*
 * The numbers of a report: a model of a queue over a span of time.
 *
 * Everything points into the model, which must not change meanwhile. Times are wall-clock milliseconds; everything
 * before `since_ms` is left out or cut off.
 */
#ifndef VIEW_REPORT_REPORT_FACTS_H
#define VIEW_REPORT_REPORT_FACTS_H

#include "base/arena.h"
#include "view/model/model.h"

/* One attempt on one GPU. */
struct report_span {
	int64_t start_ms, end_ms; /* end: now, while running */
	const struct view_job *job;
	const struct view_attempt *attempt;
	unsigned lane; /* spans of one lane do not overlap */
};

#define REPORT_NO_GPU (-1)

struct report_gpu {
	int id;           /* REPORT_NO_GPU: jobs without a GPU */
	const char *name; /* or NULL */
	struct report_span *spans;
	size_t num_spans; /* by start */
	unsigned num_lanes;
	size_t num_failed;
	int64_t busy_ms; /* with at least one job */
	int64_t peak_mem_mb, memory_total_mb;
	struct view_sample *samples; /* by time */
	size_t num_samples;
	int mean_util; /* -1: unknown */
};

/* Statistics of durations. */
struct report_times {
	size_t count;
	int64_t total_ms, median_ms, p90_ms, longest_ms;
};

/* What a job waited for before it started. The times of the last two are not part of the others. */
enum report_wait {
	REPORT_WAIT_ALL = 0, /* from submit to the first start */
	REPORT_WAIT_GPU,     /* a free GPU, and its turn */
	REPORT_WAIT_AFTER,   /* the jobs that it depends on */
	REPORT_WAIT_RETRY,   /* its next attempt; counted from the request for a retry */
	REPORT_WAIT_STILL,   /* has not started: until now */
	REPORT_WAIT_BEGIN,   /* its begin time */
	REPORT_WAIT_HELD,    /* its release */
};
#define REPORT_WAITS 7

/* The number of waiting jobs, from a moment on. */
struct report_depth {
	int64_t time_ms;
	size_t waiting;
};

struct report_facts {
	int64_t from_ms, to_ms, now_ms; /* from < to */
	bool files;                     /* jobs are files, without visible numbers; set by the caller that draws */
	size_t num_jobs;
	size_t counts[VIEW_JOB_STATES];
	size_t num_attempts;
	struct report_gpu *gpus; /* by id; GPUs that ran something or exist now */
	size_t num_gpus, gpus_capacity;
	struct report_times waits[REPORT_WAITS];
	int64_t paused_ms; /* time in which the queue was paused */
	int64_t idle_ms;   /* of idle GPUs, while jobs waited that could have started */
	int64_t gpu_ms;    /* of all GPUs together: (to - from) × their number */
	int64_t busy_ms;
	struct report_depth *depth; /* by time */
	size_t num_depth;
	struct report_span *ends; /* ended attempts, one each, by end */
	size_t num_ends;
	const struct view_job **failed; /* newest first */
	size_t num_failed;
	struct report_span *longest; /* longest first */
	size_t num_longest;
	struct report_span *idle; /* attempts with GPUs that were idle for too long, the longest first */
	size_t num_idle;
	int64_t wasted_ms;            /* total idle GPU time of these attempts */
	struct report_span *measured; /* attempts whose energy is known, the highest first */
	size_t num_measured;
	int64_t energy_j; /* total energy of these attempts */
	struct arena arena;
};

/* since_ms: 0 for everything. 0 or -ENOMEM. */
int report_facts_init(struct report_facts *f, const struct view_model *m, int64_t since_ms, int64_t now_ms);
void report_facts_finish(struct report_facts *f);

/* The statistics of `values`, which are sorted in place. */
struct report_times report_times_of(int64_t *values, size_t count);

/* A part of report_facts_init(): sorts and sums up `measured` and `idle`. */
void report_cost_order(struct report_facts *f);
/* The total idle time of the GPUs of an attempt. */
int64_t report_idle_ms(const struct report_span *s);
/* A part of report_facts_init(): waits, depth, idle_ms. */
int report_facts_waiting(struct report_facts *f, const struct view_model *m, int64_t since_ms);
/* Whether a job is unfinished, or was submitted or ended at or after since_ms. */
bool report_is_recent(const struct view_job *job, int64_t since_ms);

#endif
