/* SPDX-License-Identifier: MIT */
/*
 * Jobs that wait: for a GPU, or for other jobs to be completed.
 *
 * A pending job that was not handed out is in exactly one of two places: in r->pending,
 * or linked under one unfinished job that it waits for (`blocked`).
 */
#ifndef QUEUE_RUNNER_RUNNER_WAITING_H
#define QUEUE_RUNNER_RUNNER_WAITING_H

struct job;
struct runner;

/* Fails the job instead where one that it waits for will never be completed. */
void runner_enqueue(struct runner *r, struct job *job);
void runner_dequeue(struct runner *r, struct job *job);

#endif
