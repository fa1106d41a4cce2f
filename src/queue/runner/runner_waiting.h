/* SPDX-License-Identifier: MIT */
/*
 * The scheduler's waiting jobs: they wait for a GPU, or for other jobs to complete. A pending job
 * waits there unless it was handed to a keeper.
 */
#ifndef QUEUE_RUNNER_RUNNER_WAITING_H
#define QUEUE_RUNNER_RUNNER_WAITING_H

struct job;
struct runner;

/* Fails the job instead if it waits for a job that will never complete. */
void runner_enqueue(struct runner *r, struct job *job);
/* The scheduler could not take a job: enqueues all missing jobs after a pause. code: for the message. */
void runner_enqueue_later(struct runner *r, int code);
void runner_enqueue_missing(struct runner *r);
void runner_dequeue(struct runner *r, struct job *job);
/* The job has ended: enqueues the jobs that waited for it. */
void runner_release(struct runner *r, struct job *job);

#endif
