/* SPDX-License-Identifier: MIT */
/*
 * The options that a user gives to one job: in a comment of a commands file, or to `gpuq add`.
 *
 * A field is valid only if its bit is in `set`. Values that do not parse or are out of range
 * are never stored. Start from {0}.
 */
#ifndef QUEUE_INPUT_JOB_OPTIONS_H
#define QUEUE_INPUT_JOB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "queue/input/config.h"
#include "queue/input/job_selection.h"
#include "queue/journal/job.h"

enum job_option {
	JOB_OPTION_MEM,
	JOB_OPTION_NUM_GPUS,
	JOB_OPTION_TIMEOUT,
	JOB_OPTION_NAME,
	JOB_OPTION_PRIORITY,
	JOB_OPTION_RETRIES,
	JOB_OPTION_AFTER,
	JOB_OPTION_GPU,
	JOB_OPTION_EXCLUSIVE,
	JOB_OPTION_HOST_MEM,
	JOB_OPTION_CPUS,
	JOB_OPTION_AFTER_ANY,
	JOB_OPTION_BEGIN,
	JOB_OPTION_TAG,
	JOB_OPTION_SIGNAL,
	JOB_OPTION_REQUEUE_ON,
	JOB_OPTION_IDLE_WARN,
	JOB_OPTIONS,
};

#define JOB_OPTION_MAX_GPUS     1024
#define JOB_OPTION_MAX_PRIORITY 1000000
#define JOB_OPTION_MAX_CPUS     65536

struct job_options {
	unsigned set;       /* bits 1u << enum job_option */
	unsigned cleared;   /* the bits of those that are removed from the job */
	uint64_t mem_bytes; /* on each of the job's GPUs */
	int num_gpus;       /* 0: none */
	uint64_t timeout_ms;
	char *name;   /* never empty; NULL if cleared */
	int priority; /* higher goes first */
	int retries;
	struct job_selection after;     /* these must be completed… */
	struct job_selection after_any; /* …and these must have ended */
	int64_t begin_ms;               /* milliseconds since 1970 */
	char *tags;                     /* "a,b" */
	int warn_signal;                /* signal sent before the time limit… */
	uint64_t warn_before_ms;        /* …by this much */
	int requeue_on;                 /* exit code, 1 to 255 */
	uint64_t idle_warn_ms;          /* 0: never */
	char *gpu;                      /* see queue/schedule/gpu_pin.h */
	bool exclusive;
	uint64_t host_mem_bytes; /* more than 0 */
	int cpus;
};

void job_options_finish(struct job_options *o);

/* Sets one option from its text. -EINVAL with a message that says what was expected. */
int job_options_set(struct job_options *o, enum job_option option, const char *value, struct gd_error *err);

/* Removes an option from a job, as `gpuq edit --after ''` does. -EINVAL for options that every job has. */
int job_options_clear(struct job_options *o, enum job_option option, struct gd_error *err);

/* Moves the options that are set in `under` and not in `o`. */
void job_options_fill(struct job_options *o, struct job_options *under);

/* Sets the defaults of a new job from the settings: its needs and the idle warning. */
void job_spec_set_defaults(struct job_spec *spec, const struct config *c);

/* The jobs that a job waits for. Start from {0}. */
struct job_after {
	struct id_list after, any;
};
void job_after_finish(struct job_after *a);

/* Names of jobs that are being added, such as those of a commands file. They take precedence over names in the queue.
 */
struct job_names {
	/* Appends the jobs with this name. 1; 0 if there are none; -ENOMEM. */
	int (*find)(void *context, const char *name, struct id_list *ret);
	void *context;
};

/*
 * Finds the jobs that `after` and `after_any` name, all of which must exist, and stores them in a job, which borrows
 * them. names may be NULL. -EINVAL with a message: "after job 7: there is no such job".
 */
int job_options_resolve(const struct job_options *o, const struct jobs *js, const struct job_names *names,
	struct job_after *scratch, struct job_spec *spec, struct gd_error *err);
/* Whether there is anything to resolve. */
bool job_options_have_after(const struct job_options *o);

/*
 * Stores the other options that are set in a job, replacing its values. -EINVAL if the result contradicts itself, as
 * `gpu` and `num_gpus` can. The job borrows the strings.
 */
int job_options_apply(const struct job_options *o, struct job_spec *spec, struct gd_error *err);

/* "num_gpus" and so on. */
const char *job_option_name(enum job_option option);

#endif
