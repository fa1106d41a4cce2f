/* SPDX-License-Identifier: MIT */
/*
 * A queue as the views see it: follows the journal and the GPUs, and keeps a
 * model (view/model/model.h) up to date, change by change.
 *
 *     queue_view_open() → wait for queue_view_fd() to be readable →
 *     queue_view_update() → draw queue_view_model() → … → queue_view_close()
 *
 * One thread. Makes no file and needs no right to write; only acting does.
 * Commands and names are valid UTF-8 without control characters but newlines and
 * tabs: a terminal draws them with display_append().
 */
#ifndef CLI_QUEUE_VIEW_H
#define CLI_QUEUE_VIEW_H

#include "cli/queue_choice.h"
#include "view/model/actions.h"
#include "view/model/model.h"

struct queue_view;

/* In every field zero means the default. */
struct queue_view_options {
	size_t history;     /* samples kept per GPU; the model's default */
	unsigned sample_ms; /* how often GPUs are asked; 1000 */
	bool no_gpus;       /* they are not asked at all */
	bool may_be_empty;  /* there need not be a queue yet: it is shown as soon as there is one */
	bool all;           /* all queues of this user on this machine, also those that come later */
};

/*
 * `q` after queue_choice_resolve(), and as long as the view. Reads all there is; waits for no driver. -ENOENT where
 * there is no journal, and no launch or map of this user runs either.
 *
 * With `all`, ids of jobs name their queue, too (view_job_id()); a queue that cannot be read is reported once, by
 * queue_view_update(), and the others are shown.
 */
int queue_view_open(const struct queue_choice *q, const struct queue_view_options *o, struct queue_view **ret,
	struct gd_error *err);
void queue_view_close(struct queue_view *v); /* NULL is fine */

/* Readable when there may be something new, at least once a second. For poll() and epoll only. */
int queue_view_fd(const struct queue_view *v);
/* Takes in what is new. 0, or the journal cannot be read any more (the model stays as it is). */
int queue_view_update(struct queue_view *v, struct gd_error *err);

struct view_model *queue_view_model(struct queue_view *v);
const struct view_actions *queue_view_actions(struct queue_view *v);

#endif
