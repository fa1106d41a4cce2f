/* SPDX-License-Identifier: MIT */
/*
 * The options that a user gives to one job: in a comment of a commands file, or to `gpuq add`.
 *
 * A field counts only if its bit is in `set`. Values that do not parse or are out of range
 * are never stored. Start from {0}.
 */
#ifndef QUEUE_INPUT_JOB_OPTIONS_H
#define QUEUE_INPUT_JOB_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"

enum job_option {
	JOB_OPTION_MEM,
	JOB_OPTION_NUM_GPUS,
	JOB_OPTION_TIMEOUT,
	JOB_OPTION_NAME,
	JOB_OPTION_PRIORITY,
	JOB_OPTION_RETRIES,
	JOB_OPTION_AFTER,
	JOB_OPTIONS,
};

#define JOB_OPTION_MAX_GPUS     1024
#define JOB_OPTION_MAX_PRIORITY 1000000

struct job_options {
	unsigned set;       /* bits 1u << enum job_option */
	uint64_t mem_bytes; /* on each of the job's GPUs; a number without a unit is MB */
	int num_gpus;       /* 0: none */
	uint64_t timeout_ms;
	char *name;   /* never empty */
	int priority; /* higher goes first */
	int retries;
	uint64_t *after; /* ids of jobs */
	size_t num_after;
};

void job_options_finish(struct job_options *o);

/* Sets one option from its text. -EINVAL with a message that says what was expected. */
int job_options_set(struct job_options *o, enum job_option option, const char *value, struct gd_error *err);

/* "num_gpus" and so on. */
const char *job_option_name(enum job_option option);

#endif
