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
	bool grouped;   /* set it after submit_begin(): all jobs form a group… */
	uint64_t group; /* …whose name is the first one's id */
};

/* -E2BIG with words for a command that no line of a journal can hold. */
int submit_check_size(size_t command_size, struct gd_error *err);

/*
 * Sets cwd_own, whether the directory belongs to the user or root and nobody else can write it, and cwd_id.
 */
void submit_describe_cwd(struct job_spec *spec, const char *cwd);

int submit_begin(struct submit *s, struct journal *j, struct id_list *ids, struct gd_error *err);
int submit_add(struct submit *s, const struct job_spec *spec, struct gd_error *err);
/* Also ends it: lock and memory are released, whatever is returned. */
int submit_commit(struct submit *s, struct gd_error *err);
void submit_abort(struct submit *s);

/*
 * Adds the commands of a file, from commands_read(), that are not in the queue yet: of
 * equal lines as many as the file has more than were ever added from it. `base` has what
 * is the same for all of them, with the jobs that `options` (or NULL) says they wait for; what a command says of itself
 * goes before.
 */
int submit_file(struct journal *j, struct commands *c, const struct job_spec *base, const struct job_options *options,
	struct id_list *ids, struct gd_error *err);

#endif
