/* SPDX-License-Identifier: MIT */
/*
 * What is going on, as the views see it: some work, some GPUs, some jobs.
 *
 * The model knows neither queue nor pool. Whoever has the facts puts them in
 * (view_put_gpu(), view_put_job(), …), each as a whole: strings are copied, what
 * was there before under the same id is replaced. Everything else here asks:
 * rates, counts, order, what is selected. One thread; times are given, never
 * read, so that a model can be tested, replayed and drawn from a file.
 *
 * Two clocks: *_ms are wall-clock milliseconds (for people), *_ns monotonic ones.
 * Numbers that are not known are -1; unknown is never 0.
 */
#ifndef VIEW_MODEL_MODEL_H
#define VIEW_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The work as a whole --------------------------------------------------- */

struct view_work {
	const char *title; /* "gpuq run", "gpuq launch", the program's own; or NULL */
	int64_t total;     /* tasks expected; -1: not known */
	uint64_t done;     /* ended well */
	uint64_t failed;   /* ended otherwise; timeouts among them */
	uint64_t timeouts;
	uint64_t cancelled; /* neither done nor failed: they count as not done */
	uint64_t running;
	uint64_t waiting;
	/* Audio seconds or bytes: where total_amount is known (> 0), bar and ETA follow it, not the counts. */
	double total_amount, done_amount;
	const char *detail;   /* a few words more about the whole: "RTF 0.12"; or NULL */
	int64_t given_eta_ns; /* of somebody who knows better than the rate does, at time_ns; 0: nobody */
	const char *note;     /* a word on what is going on: "ending: Ctrl-C once more ends running jobs"; or NULL */
	uint64_t start_ns;
	uint64_t end_ns; /* 0 while it goes on */
	/* When these counts were so. The rate is taken between the times of several puts; 0: over all since start_ns.
	 */
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
	int id;   /* as people number it, -1: what runs on none; rows of one GPU (slots) have different `slot` */
	int slot; /* 0 where a GPU has one row */
	const char *name; /* or NULL, as all strings here */
	enum view_gpu_status status;
	const char *task;       /* what it works on: a command, a file */
	uint64_t task_id;       /* its id as a job; 0: none */
	const char *task_name;  /* that the user gave it */
	const char *task_queue; /* the name of its queue, where there are several */
	int num_tasks;          /* more than one at a time: jobs on it */
	const char *error;
	int64_t since_ns; /* when the current task began; -1 */
	int64_t last_duration_ns;
	uint64_t completed, failed, timeouts; /* timeouts are among the failed */
	int64_t memory_total_bytes, memory_used_bytes;
	int64_t memory_reserved_bytes; /* that running jobs of the queue asked for; -1: they did not say */
	int64_t memory_foreign_bytes;  /* of processes that are neither jobs nor launches of this queue; -1 */
	int utilization_percent;
	int temperature_celsius;
	int64_t power_milliwatts;
};

/* An idle GPU of which nothing else is known: numbers that can be unknown are -1. */
struct view_gpu view_gpu_unknown(int id, int slot);

/* One sample of a GPU, kept for its history. */
struct view_sample {
	int64_t time_ms;
	int64_t memory_used_bytes;
	int utilization_percent;
};

/* ---- Jobs ------------------------------------------------------------------ */

/*
 * Jobs of several queues can stand in one model. The id of a job then consists of the number of its queue (from 1)
 * and of its number in that queue; in the model of one queue it is the latter alone (queue 0). People see the number,
 * everything else uses the id. Ids stay below 2^53, so that JavaScript has them, too.
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

/* "pending", … ; -1 for a word that is none */
const char *view_job_state_name(enum view_job_state state);
int view_job_state_parse(const char *word);

struct view_attempt {
	int64_t start_ms, end_ms; /* end -1: running */
	int64_t duration_ms;
	int64_t peak_mem_mb;
	int64_t energy_j; /* that its GPUs used, if it had them alone; -1: not known */
	/* GPUs that did nothing for it for so long that a warning was due: their idle time together up to a moment, and
	 * how many of them were still idle then. */
	int64_t idle_ms, idle_at_ms;
	int64_t idle_since_ms; /* the first of those that were still idle; 0: none */
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

/* Why a job that was not over, or is no longer over, did not wait for a GPU. */
enum view_delay_kind {
	VIEW_DELAY_HELD = 0,
	VIEW_DELAY_BEGIN, /* its time to begin had not come */
	VIEW_DELAY_OVER,  /* it was over, until somebody asked for another attempt */
};

struct view_delay {
	int64_t from_ms, to_ms; /* to -1: it lasts */
	enum view_delay_kind kind;
};

struct view_job {
	uint64_t id;       /* unique in the model, see view_job_id() */
	const char *queue; /* the name of its queue, where there are several; else NULL */
	const char *name;
	const char *command; /* valid UTF-8: bytes that are not are shown as escapes */
	const char *cwd;
	enum view_job_state state;
	bool cancelling; /* running, and somebody wants it ended */
	bool paused;     /* running, but its processes are stopped */
	int priority;
	int num_gpus;          /* that it wants */
	int64_t mem_mb;        /* that it needs; -1 */
	int64_t timeout_ms;    /* -1 */
	const uint64_t *after; /* numbers of jobs of the same queue */
	size_t num_after;
	int64_t submit_ms;
	const char *reason; /* why it ended as it did, or did not start */
	/* Oldest first; the last one is the one that counts. */
	const struct view_attempt *attempts;
	size_t num_attempts;
	const struct view_delay *delays; /* by from_ms */
	size_t num_delays;
	uint64_t version; /* set by the model: grows with every change of any job */
};

/* The last attempt, or NULL. */
const struct view_attempt *view_job_last(const struct view_job *job);
/* Whether it runs on a GPU that does nothing for it, for so long that a warning was due. */
bool view_job_is_idle(const struct view_job *job);

/* ---- Launches and maps ------------------------------------------------------- */

/* What a run has done on one GPU. */
struct view_run_gpu {
	int id;
	uint64_t done, failed;
	double rtf;       /* -1 */
	const char *task; /* what its workers are at, or NULL */
};

/* A gpuq launch or gpuq map, next to the queue; those of a model run. */
struct view_run {
	int64_t pid;
	const char *kind;   /* "launch": of files; "map": of items */
	const char *name;   /* the folder or file that it reads */
	const char *worker; /* its program, or NULL */
	int64_t start_ms;
	int64_t end_ms;        /* 0: it runs */
	bool killed;           /* it has not ended by itself: end_ms is when it was last heard of */
	int64_t total;         /* files or items of this run; -1 */
	uint64_t done, failed; /* by this run */
	uint64_t skipped;      /* done before it */
	uint64_t running;
	double fraction; /* 0…1; -1 */
	double rate;     /* ends per second; 0 while nothing has ended */
	double rtf;      /* -1 */
	int64_t eta_ms;  /* -1 */
	bool watching;   /* it waits for new files when it is done */
	bool ending;     /* nothing new begins */
	const struct view_run_gpu *gpus;
	size_t num_gpus;
};

/* ---- The model ------------------------------------------------------------- */

struct view_model;

/* `history`: samples kept per GPU (0: 600). NULL when memory ran out. */
struct view_model *view_model_create(size_t history);
void view_model_destroy(struct view_model *m);

/*
 * Each copies; 0 or -ENOMEM, and then nothing has changed. What is put as it was
 * already is no change: no version grows. Pointers that were asked for are valid
 * until the same thing is put again or forgotten.
 */
int view_put_work(struct view_model *m, const struct view_work *work);
int view_put_gpu(struct view_model *m, const struct view_gpu *gpu);
int view_put_sample(struct view_model *m, int gpu_id, const struct view_sample *sample);
/* All GPUs and their history: others are shown from here on. */
void view_forget_gpus(struct view_model *m);
int view_put_job(struct view_model *m, const struct view_job *job);
/* Everything of jobs is forgotten (the journal was pruned); versions grow on. */
void view_forget_jobs(struct view_model *m);
/* The same of one queue. */
void view_forget_queue(struct view_model *m, unsigned queue);

/* When nothing was started because the queue was paused, oldest first, in place of those before; `kind` is not used. */
int view_put_pauses(struct view_model *m, const struct view_delay *pauses, size_t count);
const struct view_delay *view_pauses(const struct view_model *m, size_t *ret_count);

/* All launches and maps that run, in place of those before; kept by PID. */
int view_put_runs(struct view_model *m, const struct view_run *runs, size_t count);

const struct view_work *view_work(const struct view_model *m);
size_t view_num_runs(const struct view_model *m);
const struct view_run *view_run(const struct view_model *m, size_t i);
size_t view_num_gpus(const struct view_model *m);
const struct view_gpu *view_gpu(const struct view_model *m, size_t i); /* by id, then slot */
/* The newest ones, at most max, oldest first: how many were written to `ret`. */
size_t view_history(const struct view_model *m, int gpu_id, struct view_sample *ret, size_t max);
size_t view_num_jobs(const struct view_model *m);
const struct view_job *view_job(const struct view_model *m, size_t i); /* by id */
const struct view_job *view_find_job(const struct view_model *m, uint64_t id);
/* The largest number that a job has had in its queue, for the width of a column. */
uint64_t view_max_number(const struct view_model *m);
size_t view_job_count(const struct view_model *m, enum view_job_state state);
/* Of the last change of anything. */
uint64_t view_version(const struct view_model *m);
/* Of the last change of a job, or of forgetting them all. */
uint64_t view_jobs_version(const struct view_model *m);

/* ---- What follows from it --------------------------------------------------- */

/* Ends per second over the last while (about a minute; longer where ends are rare); 0 while nothing has ended. */
double view_rate(const struct view_model *m, uint64_t now_ns);
/* Nanoseconds until all is done, from the amount or the counts; -1: not known. */
int64_t view_eta_ns(const struct view_model *m, uint64_t now_ns);
/* 0…1, by amount or counts; -1: not known. */
double view_fraction(const struct view_model *m);

enum view_order {
	VIEW_BY_ID = 0,
	VIEW_BY_STATE, /* running, pending, held, failed, cancelled, completed */
	VIEW_BY_START,
	VIEW_BY_DURATION,
	VIEW_BY_GPU,
	VIEW_BY_MEMORY, /* its peak, or what it needs */
	VIEW_BY_NAME,   /* or its command */
};
#define VIEW_ORDERS 7

struct view_selection {
	unsigned states; /* bits 1 << state; 0: all */
	/* In number, name, queue, command, reason or "gpu N", without regard to case (of ASCII); words all match; or
	 * NULL. */
	const char *text;
	enum view_order order;
	bool reverse;
	int64_t now_ms; /* for durations of running jobs */
};

/*
 * Jobs that match, in order, into `ret` (at most max); how many match in all. Equal
 * ones by id; those of which the key is not known are last, also in reverse.
 */
size_t view_select(const struct view_model *m, const struct view_selection *s, const struct view_job **ret, size_t max);

#endif
