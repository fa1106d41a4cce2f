/* SPDX-License-Identifier: MIT */
/* Adding jobs to a queue. */
#ifndef QUEUE_INPUT_SUBMIT_H
#define QUEUE_INPUT_SUBMIT_H

#include "gpu_dispatch.h"
#include "queue/input/commands.h"
#include "queue/input/id_list.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"

/*
 * Adds jobs one after another under one lock: begin → add… → commit. Jobs are stored and synced if commit returned 0.
 * On failure the list has the ids of the jobs that were stored anyway: on a full disk, the first ones.
 */
struct submit {
	struct journal *journal;
	struct id_list *ids;
	struct text lines;
	size_t pending_ids; /* ids in `lines`, not yet appended */
	int64_t now_ms;
	bool grouped;   /* set after submit_begin(): all jobs form a group… */
	uint64_t group; /* …named after the id of the first job */
};

/* -E2BIG with a message for a command that does not fit a line of a journal. */
int submit_check_size(size_t command_size, struct gd_error *err);

/*
 * Sets cwd_own (the directory belongs to the user or root and no other user can write it) and cwd_id of cwd. fd: this
 * directory, or AT_FDCWD for the current one. On failure, the job must not be added with this cwd: without cwd_id, it
 * would start in any directory that another user puts there.
 */
int submit_describe_cwd(struct job_spec *spec, int fd);

int submit_begin(struct submit *s, struct journal *j, struct id_list *ids, struct gd_error *err);
int submit_add(struct submit *s, const struct job_spec *spec, struct gd_error *err);
/* Releases lock and memory, even on failure. */
int submit_commit(struct submit *s, struct gd_error *err);
void submit_abort(struct submit *s);

/*
 * Adds the commands of a file, from commands_read(), that are not in the queue yet. Equal lines are counted: if a line
 * occurs in the file more often than it was ever added from it, only the difference is added. `base` holds the values
 * common to all jobs, and `options` (or NULL) the jobs that they wait for; options of a command take precedence.
 */
int submit_file(struct journal *j, struct commands *c, const struct job_spec *base, const struct job_options *options,
	struct id_list *ids, struct gd_error *err);

#endif
