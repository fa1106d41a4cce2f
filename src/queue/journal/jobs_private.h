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

/*
 * Each of these returns NULL on failure, with -ENOMEM or -EBADMSG in *error. What
 * they return lives as long as the fold.
 */

/* A job that is not in the fold yet; it has no state. */
struct job *jobs_make_job(struct jobs *js, const struct record *r, uint64_t id, int *error);
/* A new attempt of a job, put before its earlier ones. */
struct job_attempt *jobs_make_attempt(struct jobs *js, struct job *job, const struct record *r, int *error);
/* An interned string, in base64 where b64 is present; also NULL, with *error untouched, where v is absent. */
const char *jobs_intern(struct jobs *js, const struct json_value *v, const struct json_value *b64, int *error);

/* These return 0, -ENOMEM or -EBADMSG. */
int jobs_add_keeper(struct jobs *js, const struct record *r);
int jobs_add_seen(struct jobs *js, const struct record *r);
int jobs_set_retries(struct jobs *js, struct job *job, int64_t retries);

#endif
