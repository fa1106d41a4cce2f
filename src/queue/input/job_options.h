/* SPDX-License-Identifier: MIT */
/*
 * The options that a user gives to one job: in a comment of a commands file, or to `gpuq add`.
 *
 * A field counts only if its bit is in `set`. Values that do not parse or are out of range
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
	unsigned cleared;   /* of those: options that a job has no longer */
	uint64_t mem_bytes; /* on each of the job's GPUs */
	int num_gpus;       /* 0: none */
	uint64_t timeout_ms;
	char *name;   /* never empty; NULL if it is cleared */
	int priority; /* higher goes first */
	int retries;
	struct job_selection after;     /* these must be completed… */
	struct job_selection after_any; /* …and these be over */
	int64_t begin_ms;               /* milliseconds since 1970 */
	char *tags;                     /* "a,b" */
	int warn_signal;                /* sent before the time limit… */
	uint64_t warn_before_ms;        /* …so long */
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

/* Takes an option from a job that has it, as `gpuq edit --after ''` does. -EINVAL for one that every job has. */
int job_options_clear(struct job_options *o, enum job_option option, struct gd_error *err);

/* Moves the options that are set in `under` and not in `o`. */
void job_options_fill(struct job_options *o, struct job_options *under);

/* What all new jobs get from the settings: needs, and when to warn. */
void job_spec_set_defaults(struct job_spec *spec, const struct config *c);

/* The jobs that another one waits for. Start from {0}. */
struct job_after {
	struct id_list after, any;
};
void job_after_finish(struct job_after *a);

/* Names of jobs that are being added, as lines of a commands file have them. They go before those of the queue. */
struct job_names {
	/* Appends the jobs of this name. 1; 0: none of them has it; -ENOMEM. */
	int (*find)(void *context, const char *name, struct id_list *ret);
	void *context;
};

/*
 * Finds the jobs that `after` and `after_any` name, of which each must exist, and puts them into a job, which borrows
 * them. names: or NULL. -EINVAL, with words: "after job 7: there is no such job".
 */
int job_options_resolve(const struct job_options *o, const struct jobs *js, const struct job_names *names,
	struct job_after *scratch, struct job_spec *spec, struct gd_error *err);
/* Whether there is anything to resolve. */
bool job_options_have_after(const struct job_options *o);

/*
 * Puts the other options that are set into a job, over what it has. -EINVAL if the result contradicts itself, as `gpu`
 * and `num_gpus` can. The job borrows the strings.
 */
int job_options_apply(const struct job_options *o, struct job_spec *spec, struct gd_error *err);

/* "num_gpus" and so on. */
const char *job_option_name(enum job_option option);

#endif
