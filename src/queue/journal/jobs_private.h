/* SPDX-License-Identifier: MIT */
/*
 * What the files of the fold share. Only jobs*.c include this.
 *
 * jobs.c keeps the jobs in order of their ids, jobs_make.c copies what a line says into
 * the memory of the fold, jobs_apply.c decides what a line changes.
 */
#ifndef QUEUE_JOURNAL_JOBS_PRIVATE_H
#define QUEUE_JOURNAL_JOBS_PRIVATE_H

#include "queue/journal/jobs.h"
#include "queue/journal/record.h"

/* Puts a job whose id is new where its id belongs: 0 or -ENOMEM. */
int jobs_insert(struct jobs *js, struct job *job);

/* The job of a line, which is counted as one of its records; NULL: there is none. Call it once for each line. */
struct job *jobs_find_counted(struct jobs *js, const struct record *r);

/*
 * Each of these returns NULL on failure, with -ENOMEM or -EBADMSG in *error. What
 * they return lives as long as the fold.
 */

/* A job that is not in the fold yet; it has no state. */
struct job *jobs_make_job(struct jobs *js, const struct record *r, uint64_t id, int *error);
/* A new attempt of a job, put before its earlier ones. */
struct job_attempt *jobs_make_attempt(struct jobs *js, struct job *job, const struct record *r, int *error);
/* What an `idle` line says. */
const struct attempt_idle *jobs_make_idle(struct jobs *js, const struct record *r, int *error);
/* An interned string, in base64 where b64 is present; also NULL, with *error untouched, where v is absent. */
const char *jobs_intern(struct jobs *js, const struct json_value *v, const struct json_value *b64, int *error);

/* These return 0, -ENOMEM or -EBADMSG. */
/* jobs_pilots.c */
int jobs_apply_coordinator(struct jobs *js, const struct record *r);
int jobs_apply_pilot(struct jobs *js, const struct record *r);
/* The job runs on the pilot that `r` names. */
int jobs_set_pilot(struct jobs *js, struct job *job, const struct record *r);
/* A coordinator wrote this after another had taken its place: only ends count. */
bool jobs_is_outdated_epoch(const struct jobs *js, const struct record *r);
/*
 * jobs_delays.c: a time in which the job does not wait for a GPU begins, and one before it ends. Moments are those of
 * the records, which clocks that were set may have put out of order.
 */
int jobs_begin_delay(struct jobs *js, struct job *job, int64_t from_ms, bool held);
void jobs_end_delay(struct job *job, int64_t to_ms);
/* The same of the whole queue. */
int jobs_pause(struct jobs *js, bool paused, int64_t time_ms);
/* A job that is over is pending again from to_ms on. */
int jobs_delay_until_retry(struct jobs *js, struct job *job, int64_t to_ms);
int jobs_add_keeper(struct jobs *js, const struct record *r);
int jobs_add_seen(struct jobs *js, const struct record *r);
int jobs_set_defaults(struct jobs *js, struct job *job, const struct record *r);

/*
 * jobs_hooks.c: a hook is due for the end that `r` tells of, if there is a command. Its attempt: NULL if the job ended
 * without one. Called when the job has its new state.
 */
int jobs_add_hook(struct jobs *js, struct job *job, const struct job_attempt *a, const struct record *r);
int jobs_apply_hook(struct jobs *js, const struct record *r);
/* A try of a hook that is due has begun or is over. */
void jobs_follow_hook(struct jobs *js, struct job *job, const struct record *r);

#endif
