/* SPDX-License-Identifier: MIT */
/* Putting jobs into a queue, and telling it what to do with those that are there. */
#ifndef QUEUE_INPUT_SUBMIT_H
#define QUEUE_INPUT_SUBMIT_H

#include "gpu_dispatch.h"
#include "queue/input/commands.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"

/* Ids that were given, in a row or not. Start from {0}. */
struct id_list {
	uint64_t *ids;
	size_t count, capacity;
};

int id_list_add(struct id_list *l, uint64_t id);
void id_list_finish(struct id_list *l);

/*
 * Adds jobs one after another under one lock: begin → add… → commit. What has
 * been committed with 0 is kept and synced. On failure the ids that are kept all
 * the same are in the list: on a full disk, the first ones.
 */
struct submit {
	struct journal *journal;
	struct id_list *ids;
	struct text lines;
	size_t pending_ids; /* in lines, not yet appended */
	uint64_t next_id;
	int64_t now_ms;
};

/* Whether all that it waits for is there; -EINVAL with words. Under the lock no prune takes it away again. */
int submit_check_after(const struct jobs *js, const struct job_spec *spec, struct gd_error *err);

int submit_begin(struct submit *s, struct journal *j, struct id_list *ids, struct gd_error *err);
int submit_add(struct submit *s, const struct job_spec *spec, struct gd_error *err);
/* Also ends it: lock and memory are released, whatever is returned. */
int submit_commit(struct submit *s, struct gd_error *err);
void submit_abort(struct submit *s);

/*
 * Adds the commands of a file, from commands_read(), that are not in the queue yet: of
 * equal lines as many as the file has more than were ever added from it. `base` has what
 * is the same for all of them; what a command says of itself goes before.
 */
int submit_file(
	struct journal *j, struct commands *c, const struct job_spec *base, struct id_list *ids, struct gd_error *err);

/* What could not be done for ids[index] of those that were given, and why. */
typedef void submit_refused_fn(void *context, size_t index, const struct gd_error *why);

/*
 * One of cancel, hold, release, urgent, retry for these jobs, under one lock:
 * for those it can be done to; of the others `refused` is told. Running jobs that
 * are cancelled: their keepers are told. *ret_done: how many it was done to.
 */
int submit_control(struct journal *j, enum event event, const struct id_list *ids, submit_refused_fn *refused,
	void *context, size_t *ret_done, struct gd_error *err);

#endif
