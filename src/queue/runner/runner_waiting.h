/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait, for the scheduler: for a GPU, or for other jobs to be completed. A pending job waits there unless
 * it was handed to a keeper.
 */
#ifndef QUEUE_RUNNER_RUNNER_WAITING_H
#define QUEUE_RUNNER_RUNNER_WAITING_H

struct job;
struct runner;

/* Fails the job instead if one that it waits for will never be completed. */
void runner_enqueue(struct runner *r, struct job *job);
/* The scheduler could not take a job: all that it lacks are enqueued after a pause. code: for the message. */
void runner_enqueue_later(struct runner *r, int code);
void runner_enqueue_missing(struct runner *r);
void runner_dequeue(struct runner *r, struct job *job);
/* The job is over: enqueues those that waited for it. */
void runner_release(struct runner *r, struct job *job);

#endif
