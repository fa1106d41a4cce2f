/* SPDX-License-Identifier: MIT */
/*
 * The runner's GPUs: a probe samples them, and each sample shows the usage of the jobs.
 *
 * After runner_gpus_open() r->watching.gpus always has the same GPUs in the same order: jobs
 * know their GPUs by position.
 */
#ifndef QUEUE_RUNNER_RUNNER_GPUS_H
#define QUEUE_RUNNER_RUNNER_GPUS_H

#include "gpu_dispatch.h"

struct runner;

/* Waits for the first sample. */
int runner_gpus_open(struct runner *r, struct gd_error *err);
/* Starts another probe after the last one died; on failure the next tick retries. */
void runner_gpus_reopen(struct runner *r);
/* If no driver reports a GPU: prints why, or from which variable the GPUs are taken (gpu/select.h). */
void runner_gpus_say_source(struct runner *r);
void runner_gpus_close(struct runner *r);

#endif
