/* SPDX-License-Identifier: MIT */
/* Putting jobs into a queue. */
#ifndef QUEUE_INPUT_SUBMIT_H
#define QUEUE_INPUT_SUBMIT_H

#include "gpu_dispatch.h"
#include "queue/input/commands.h"
#include "queue/input/id_list.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"

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
	int64_t now_ms;
};

/* Whether all that it waits for is there; -EINVAL with words. Under the lock no prune takes it away again. */
int submit_check_after(const struct jobs *js, const struct job_spec *spec, struct gd_error *err);

/* Whether the current directory belongs to the user or root and nobody else can write it: struct job_spec, cwd_own. */
bool submit_cwd_is_own(void);

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

#endif
