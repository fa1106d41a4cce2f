/* SPDX-License-Identifier: MIT */
/*
 * A job as JSON: the object of `gpuq status --json`, of the run report and of a hook's standard input.
 * Every member is always present; unknown values are null.
 */
#ifndef QUEUE_JOURNAL_JOB_JSON_H
#define QUEUE_JOURNAL_JOB_JSON_H

#include "base/text.h"
#include "queue/journal/job.h"

/* Appends one object, without a newline. */
void job_json_write(struct text *t, const struct job *job);
/* The same without `position`, `waits` and `expected_start`, which the caller adds, and without the closing bracket. */
void job_json_write_open(struct text *t, const struct job *job);

#endif
