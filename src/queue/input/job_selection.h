/* SPDX-License-Identifier: MIT */
/*
 * What people write in place of the id of a job: "12", "12-15", a group "g12", "tag:night", "@" for the last job and
 * "@~1" for the one before it, the name of jobs ("name:g12" for one that looks like something else), or several of
 * these with commas.
 *
 * Words are checked when they are given and resolved when the journal has been read. A job that was named by its id, or
 * by a name that no other job has, must exist for the command that uses it; a set of jobs, as a group is, stands for
 * those jobs of it that the command can be applied to. Start from {0}.
 */
#ifndef QUEUE_INPUT_JOB_SELECTION_H
#define QUEUE_INPUT_JOB_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/jobs.h"

enum job_term_kind {
	JOB_TERM_IDS,   /* from…to */
	JOB_TERM_GROUP, /* the group `from` */
	JOB_TERM_TAG,   /* all jobs with the tag `name` */
	JOB_TERM_LAST,  /* the last job but `from` */
	JOB_TERM_NAME,  /* all jobs with this name */
};

struct job_term {
	enum job_term_kind kind;
	uint64_t from, to;
	char *name; /* of a tag or a name */
};

struct job_selection {
	struct job_term *terms;
	size_t count, capacity;
};

/* -EINVAL for text that cannot be any of these, -ENOMEM; with words. */
int job_selection_add(struct job_selection *s, const char *text, struct gd_error *err);

/* Whether a job with this name can be referred to by it: the text does not mean an id, a group, a tag or several jobs.
 */
bool job_selection_is_name(const char *text);

/* Whether there are only ids, which mean the same without a journal. */
bool job_selection_is_plain(const struct job_selection *s);

/*
 * Appends the jobs: first those that were given one by one, for ids whether there are such jobs or not, then those of
 * sets. *ret_num_named (or NULL): how many of the list are of the first kind. -ENOENT if there is no such group,
 * tag or name; -ENOMEM.
 */
int job_selection_resolve(const struct job_selection *s, const struct jobs *js, struct id_list *ret,
	size_t *ret_num_named, struct gd_error *err);

void job_selection_finish(struct job_selection *s);

#endif
