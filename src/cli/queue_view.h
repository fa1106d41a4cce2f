/* SPDX-License-Identifier: MIT */
/*
 * The data source of the views: follows the journal and the GPUs, and keeps a model
 * (view/model/model.h) up to date incrementally.
 *
 *     queue_view_open() → wait for queue_view_fd() to be readable →
 *     queue_view_update() → draw queue_view_model() → … → queue_view_close()
 *
 * Single-threaded. Creates no files and needs no write permission, except for actions.
 * Commands and names are valid UTF-8 without control characters except newlines and
 * tabs: a terminal draws them with display_append().
 */
#ifndef CLI_QUEUE_VIEW_H
#define CLI_QUEUE_VIEW_H

#include "cli/queue_choice.h"
#include "view/model/actions.h"
#include "view/model/model.h"

struct queue_view;

/* In every field, zero means the default. */
struct queue_view_options {
	size_t history;     /* samples kept per GPU; default: the model's */
	unsigned sample_ms; /* how often to poll the GPUs; default: 1000 */
	bool no_gpus;       /* do not poll the GPUs */
	bool may_be_empty;  /* the queue need not exist yet: it is shown as soon as it exists */
	bool all;           /* all queues of this user on this machine, including later ones */
};

/*
 * `q`: after queue_choice_resolve(); must outlive the view. Reads the whole journal; does not wait for drivers.
 * -ENOENT if there is no journal, and no launch or map of this user is running.
 *
 * With `all`, job ids include the number of their queue (view_job_id()); a queue that cannot be read is reported
 * once, by queue_view_update(), and the others are shown.
 */
int queue_view_open(const struct queue_choice *q, const struct queue_view_options *o, struct queue_view **ret,
	struct gd_error *err);
void queue_view_close(struct queue_view *v); /* NULL is fine */

/* Whether other users may have written the journal. Launches and maps of this user are not shown with it. */
bool queue_view_is_foreign(const struct queue_view *v);

/* Readable when there may be changes, at least once a second. For poll() and epoll only. */
int queue_view_fd(const struct queue_view *v);
/* Reads the changes. 0, or an error if the journal can no longer be read (the model stays unchanged). */
int queue_view_update(struct queue_view *v, struct gd_error *err);

struct view_model *queue_view_model(struct queue_view *v);
const struct view_actions *queue_view_actions(struct queue_view *v);

#endif
