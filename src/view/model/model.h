/* SPDX-License-Identifier: MIT */
/*
 * The state that the views show: work, GPUs and jobs.
 *
 * The model knows neither queue nor pool. The owner of the facts puts them in (view_put_gpu(), view_put_job(), …), each
 * as a whole: strings are copied, and an entry with the same id is replaced. All other functions are queries: rates,
 * counts, order, selection. Single-threaded; times are parameters, clocks are never read, so that a model can be
 * tested, replayed and drawn from a file.
 *
 * Two clocks: *_ms are wall-clock milliseconds (for display), *_ns monotonic nanoseconds. Unknown numbers are -1, never
 * 0.
 */
#ifndef VIEW_MODEL_MODEL_H
#define VIEW_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The work as a whole --------------------------------------------------- */

struct view_work {
	const char *title; /* "gpuq run", "gpuq launch", the program's own; or NULL */
	int64_t total;     /* tasks expected; -1: unknown */
	uint64_t done;     /* succeeded */
	uint64_t failed;   /* failed, including timeouts */
	uint64_t timeouts;
	uint64_t cancelled; /* neither done nor failed: they count as not done */
	uint64_t running;
	uint64_t waiting;
	/* Audio seconds or bytes: if total_amount is known (> 0), bar and ETA follow it instead of the counts. */
	double total_amount, done_amount;
	const char *detail;   /* an additional short text: "RTF 0.12"; or NULL */
	int64_t given_eta_ns; /* at time_ns, from a better source than the rate; 0: none */
	const char *note;     /* a status message: "Ending the running jobs. Ctrl-C again kills them."; or NULL */
	uint64_t start_ns;
	uint64_t end_ns; /* 0 while running */
	/* The time of these counts. The rate is computed between the times of several puts; 0: since start_ns. */
	uint64_t time_ns;
};

/* ---- GPUs ------------------------------------------------------------------ */

enum view_gpu_status {
	VIEW_GPU_IDLE = 0,
	VIEW_GPU_INITIALIZING,
	VIEW_GPU_PROCESSING,
	VIEW_GPU_FINISHED,
	VIEW_GPU_ERROR,
};
#define VIEW_GPU_STATUSES 5

/* "idle", "initializing", … */
const char *view_gpu_status_name(enum view_gpu_status status);

struct view_gpu {
	int id;           /* as shown to users, -1: jobs without a GPU; rows of one GPU have different `slot` */
	int slot;         /* 0 if the GPU has one row */
	const char *name; /* or NULL, like all strings here */
	enum view_gpu_status status;
	const char *task;       /* the current task: a command or a file */
	uint64_t task_id;       /* its id as a job; 0: none */
	const char *task_name;  /* given by the user */
	const char *task_queue; /* the name of its queue, if there are several */
	int num_tasks;          /* number of jobs, if the GPU has several at a time */
	const char *error;
	int64_t since_ns; /* start of the current task; -1 */
	int64_t last_duration_ns;
	uint64_t completed, failed, timeouts; /* `failed` includes timeouts */
	int64_t memory_total_bytes, memory_used_bytes;
	int64_t memory_reserved_bytes; /* requested by running jobs of the queue; -1: not specified */
	int64_t memory_foreign_bytes;  /* used by processes that are neither jobs nor launches of this queue; -1 */
	int utilization_percent;
	int temperature_celsius;
	int64_t power_milliwatts;
};

/* An idle GPU about which nothing else is known: numbers that can be unknown are -1. */
struct view_gpu view_gpu_unknown(int id, int slot);

/* One sample of a GPU, kept for its history. */
struct view_sample {
	int64_t time_ms;
	int64_t memory_used_bytes;
	int utilization_percent;
};

/* ---- Jobs ------------------------------------------------------------------ */

/*
 * One model can contain jobs of several queues. The id of a job then consists of the number of its queue (from 1) and
 * its number in that queue; in the model of one queue it is only the latter (queue 0). Users see the number, everything
 * else uses the id. Ids stay below 2^53, so that JavaScript can represent them.
 */
#define VIEW_MAX_QUEUE ((1u << 21) - 1)
uint64_t view_job_id(unsigned queue, uint64_t number);
unsigned view_id_queue(uint64_t id);
uint64_t view_id_number(uint64_t id);

enum view_job_state {
	VIEW_JOB_PENDING = 0,
	VIEW_JOB_HELD,
	VIEW_JOB_RUNNING,
	VIEW_JOB_COMPLETED,
	VIEW_JOB_FAILED,
	VIEW_JOB_CANCELLED,
	VIEW_JOB_UNKNOWN, /* a record of it was lost: it may have run */
};
#define VIEW_JOB_STATES 7

/* "pending", … ; -1 for an unknown word */
const char *view_job_state_name(enum view_job_state state);
int view_job_state_parse(const char *word);

struct view_attempt {
	int64_t start_ms, end_ms; /* end -1: running */
	int64_t duration_ms;
	int64_t peak_mem_mb;
	int64_t energy_j; /* used by its GPUs, if it did not share them; -1: unknown */
	/* GPUs that were idle for long enough for a warning while it ran: their total idle time up to idle_at_ms, and
	 * how many of them were still idle then. */
	int64_t idle_ms, idle_at_ms;
	int64_t idle_since_ms; /* of the first GPU that was still idle; 0: none */
	size_t idle_gpus;
	int exit_code; /* -1: none */
	int signal;    /* 0: none */
	enum view_job_state state;
	const char *reason;
	const char *log_file;
	const int *gpus;
	size_t num_gpus;
	int64_t pid;
};

/* Why an unfinished (or requeued) job did not wait for a GPU. */
enum view_delay_kind {
	VIEW_DELAY_HELD = 0,
	VIEW_DELAY_BEGIN, /* its begin time was in the future */
	VIEW_DELAY_OVER,  /* it had ended, until another attempt was requested */
};

struct view_delay {
	int64_t from_ms, to_ms; /* to -1: not over yet */
	enum view_delay_kind kind;
};

struct view_job {
	uint64_t id;       /* unique in the model, see view_job_id() */
	const char *queue; /* the name of its queue, if there are several; otherwise NULL */
	const char *name;
	const char *command; /* valid UTF-8: invalid bytes are escaped */
	const char *cwd;
	enum view_job_state state;
	bool cancelling; /* running, and being cancelled */
	bool paused;     /* running, but its processes are stopped */
	int priority;
	int num_gpus;          /* requested */
	int64_t mem_mb;        /* required; -1 */
	int64_t timeout_ms;    /* -1 */
	const uint64_t *after; /* numbers of jobs of the same queue */
	size_t num_after;
	int64_t submit_ms;
	const char *reason; /* why it ended or did not start */
	const char *node;   /* the cluster node of its last attempt; NULL: this machine, or none */
	/* Oldest first; the last one counts. */
	const struct view_attempt *attempts;
	size_t num_attempts;
	const struct view_delay *delays; /* by from_ms */
	size_t num_delays;
	uint64_t version; /* set by the model: grows with every change of any job */
};

/* The last attempt, or NULL. */
const struct view_attempt *view_job_last(const struct view_job *job);
/* Whether it runs on a GPU that has been idle for long enough for a warning. */
bool view_job_is_idle(const struct view_job *job);

/* ---- Launches and maps ------------------------------------------------------- */

/* The results of a run on one GPU. */
struct view_run_gpu {
	int id;
	uint64_t done, failed;
	double rtf;       /* -1 */
	const char *task; /* current task of its workers, or NULL */
};

/* A gpuq launch or gpuq map, next to the queue; a model contains only running ones. */
struct view_run {
	int64_t pid;
	const char *kind;   /* "launch": of files; "map": of items */
	const char *name;   /* its input folder or file */
	const char *worker; /* its program, or NULL */
	int64_t start_ms;
	int64_t end_ms;        /* 0: running */
	bool killed;           /* it did not end by itself: end_ms is its last sign of life */
	int64_t total;         /* files or items of this run; -1 */
	uint64_t done, failed; /* by this run */
	uint64_t skipped;      /* done before this run */
	uint64_t running;
	double fraction; /* 0…1; -1 */
	double rate;     /* ended tasks per second; 0 while nothing has ended */
	double rtf;      /* -1 */
	int64_t eta_ms;  /* -1 */
	bool watching;   /* waits for new files when all are done */
	bool ending;     /* nothing new begins */
	const struct view_run_gpu *gpus;
	size_t num_gpus;
};

/* ---- The model ------------------------------------------------------------- */

struct view_model;

/* `history`: samples kept per GPU (0: 600). NULL: out of memory. */
struct view_model *view_model_create(size_t history);
void view_model_destroy(struct view_model *m);

/*
 * Each copies its argument; 0, or -ENOMEM and nothing has changed. Putting identical data is not a change: versions
 * stay the same. Returned pointers are valid until the same thing is put again or forgotten.
 */
int view_put_work(struct view_model *m, const struct view_work *work);
int view_put_gpu(struct view_model *m, const struct view_gpu *gpu);
int view_put_sample(struct view_model *m, int gpu_id, const struct view_sample *sample);
/* Forgets all GPUs and their history, to show other GPUs. */
void view_forget_gpus(struct view_model *m);
int view_put_job(struct view_model *m, const struct view_job *job);
/* Forgets all jobs (the journal was pruned); versions keep growing. */
void view_forget_jobs(struct view_model *m);
/* The same for one queue. */
void view_forget_queue(struct view_model *m, unsigned queue);

/* The times when the queue was paused, oldest first; replaces the previous ones. `kind` is not used. */
int view_put_pauses(struct view_model *m, const struct view_delay *pauses, size_t count);
const struct view_delay *view_pauses(const struct view_model *m, size_t *ret_count);

/* All running launches and maps; replaces the previous ones. Sorted by PID. */
int view_put_runs(struct view_model *m, const struct view_run *runs, size_t count);

const struct view_work *view_work(const struct view_model *m);
size_t view_num_runs(const struct view_model *m);
const struct view_run *view_run(const struct view_model *m, size_t i);
size_t view_num_gpus(const struct view_model *m);
const struct view_gpu *view_gpu(const struct view_model *m, size_t i); /* by id, then slot */
/* Writes the newest samples, at most max, oldest first, to `ret`; returns their number. */
size_t view_history(const struct view_model *m, int gpu_id, struct view_sample *ret, size_t max);
size_t view_num_jobs(const struct view_model *m);
const struct view_job *view_job(const struct view_model *m, size_t i); /* by id */
const struct view_job *view_find_job(const struct view_model *m, uint64_t id);
/* The largest job number, for the width of a column. */
uint64_t view_max_number(const struct view_model *m);
size_t view_job_count(const struct view_model *m, enum view_job_state state);
/* Grows with every change. */
uint64_t view_version(const struct view_model *m);
/* Grows with every change of a job, and when jobs are forgotten. */
uint64_t view_jobs_version(const struct view_model *m);

/* ---- Derived values ---------------------------------------------------------- */

/* Ended tasks per second over about the last minute (longer if ends are rare); 0 while nothing has ended. */
double view_rate(const struct view_model *m, uint64_t now_ns);
/* Nanoseconds until everything is done, from the amount or the counts; -1: unknown. */
int64_t view_eta_ns(const struct view_model *m, uint64_t now_ns);
/* 0…1, by amount or counts; -1: unknown. */
double view_fraction(const struct view_model *m);

enum view_order {
	VIEW_BY_ID = 0,
	VIEW_BY_STATE, /* running, pending, held, failed, cancelled, completed */
	VIEW_BY_START,
	VIEW_BY_DURATION,
	VIEW_BY_GPU,
	VIEW_BY_MEMORY, /* its peak, or its required memory */
	VIEW_BY_NAME,   /* or its command */
};
#define VIEW_ORDERS 7

struct view_selection {
	unsigned states; /* bits 1 << state; 0: all */
	/* Searched in number, name, queue, command, reason and "gpu N", ignoring ASCII case; all words must match; or
	 * NULL. */
	const char *text;
	enum view_order order;
	bool reverse;
	int64_t now_ms; /* for durations of running jobs */
};

/*
 * Writes matching jobs, in order, to `ret` (at most max); returns how many match in total. Equal jobs are ordered by
 * id; jobs with an unknown key come last, even in reverse.
 */
size_t view_select(const struct view_model *m, const struct view_selection *s, const struct view_job **ret, size_t max);

#endif
