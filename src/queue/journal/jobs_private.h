/* SPDX-License-Identifier: MIT */
/*
 * Shared by the source files of the fold. Only jobs*.c include this.
 *
 * jobs.c keeps the jobs in order of their ids, jobs_make.c copies values of a line into the memory of the fold,
 * jobs_apply.c decides what a line changes.
 */
#ifndef QUEUE_JOURNAL_JOBS_PRIVATE_H
#define QUEUE_JOURNAL_JOBS_PRIVATE_H

#include "queue/journal/jobs.h"
#include "queue/journal/record.h"

/* Inserts a job with a new id in the order of ids: 0 or -ENOMEM. */
int jobs_insert(struct jobs *js, struct job *job);

/* Finds the job of a line and counts the line as one of its records; NULL if there is none. Call once for each line. */
struct job *jobs_find_counted(struct jobs *js, const struct record *r);

/*
 * Each of these returns NULL on failure, with -ENOMEM or -EBADMSG in *error. The results stay valid as long as the
 * fold.
 */

/* A job that is not yet in the fold and has no state. */
struct job *jobs_make_job(struct jobs *js, const struct record *r, uint64_t id, int *error);
/* A new attempt of a job, inserted before its earlier ones. */
struct job_attempt *jobs_make_attempt(struct jobs *js, struct job *job, const struct record *r, int *error);
/* The values of an `idle` line. */
const struct attempt_idle *jobs_make_idle(struct jobs *js, const struct record *r, int *error);
/* A new keeper. From now on, jobs_keeper() finds this one by its name. */
const struct keeper_info *jobs_add_keeper(struct jobs *js, const struct record *r, int *error);
/* An interned string, decoded from b64 if present. If v is absent: NULL, with *error untouched. */
const char *jobs_intern(struct jobs *js, const struct json_value *v, const struct json_value *b64, int *error);

/* These return 0, -ENOMEM or -EBADMSG. */
/* jobs_pilots.c */
int jobs_apply_coordinator(struct jobs *js, const struct record *r);
int jobs_apply_pilot(struct jobs *js, const struct record *r);
/* The job runs on the pilot that `r` names. */
int jobs_set_pilot(struct jobs *js, struct job *job, const struct record *r);
/* Whether a coordinator wrote the line after another one had replaced it: then only ends count. */
bool jobs_is_outdated_epoch(const struct jobs *js, const struct record *r);
/*
 * jobs_delays.c: begins a period in which the job does not wait for a GPU, and ends an earlier one. Times are those of
 * the records, which may be out of order if a clock was set.
 */
int jobs_begin_delay(struct jobs *js, struct job *job, int64_t from_ms, bool held);
void jobs_end_delay(struct job *job, int64_t to_ms);
/* The same for the whole queue. */
int jobs_pause(struct jobs *js, bool paused, int64_t time_ms);
/* A job that had ended is pending again from to_ms on. */
int jobs_delay_until_retry(struct jobs *js, struct job *job, int64_t to_ms);
int jobs_add_seen(struct jobs *js, const struct record *r);
int jobs_set_defaults(struct jobs *js, struct job *job, const struct record *r);

/*
 * jobs_hooks.c: adds a due hook for the end recorded by `r`, if there is a command. a: NULL if the job ended without an
 * attempt. Called after the job has its new state.
 */
int jobs_add_hook(struct jobs *js, struct job *job, const struct job_attempt *a, const struct record *r);
int jobs_apply_hook(struct jobs *js, const struct record *r);
/* A try of a due hook has begun or ended. */
void jobs_follow_hook(struct jobs *js, struct job *job, const struct record *r);

#endif
