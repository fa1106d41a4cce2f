/* SPDX-License-Identifier: MIT */
/*
 * The ways to name jobs on a command line: "12", "12-15", a group "g12", "tag:night", "@" for the last job and "@~1"
 * for the one before it, a name ("name:g12" if it looks like something else), or several of these separated by commas.
 *
 * The text is checked when it is added and resolved when the journal has been read. A job that was named by its id or
 * by a unique name must exist for the command that uses it; a set of jobs, such as a group, means those of its jobs
 * that the command can be applied to. Start from {0}.
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
	JOB_TERM_LAST,  /* the last job, minus `from` */
	JOB_TERM_NAME,  /* all jobs with this name */
};

struct job_term {
	enum job_term_kind kind;
	uint64_t from, to;
	char *name; /* for JOB_TERM_TAG and JOB_TERM_NAME */
};

struct job_selection {
	struct job_term *terms;
	size_t count, capacity;
};

/* -EINVAL if the text does not parse, -ENOMEM; with a message. */
int job_selection_add(struct job_selection *s, const char *text, struct gd_error *err);

/* Whether the text can be used as the name of a job: it does not mean an id, a group, a tag or several jobs. */
bool job_selection_is_name(const char *text);

/* Whether the selection contains only ids, which need no journal to be resolved. */
bool job_selection_is_plain(const struct job_selection *s);

/*
 * Appends the jobs: first those that were named individually (ids even if there are no such jobs), then those of sets.
 * *ret_num_named (or NULL): how many were named individually. -ENOENT if there is no such group, tag or name; -ENOMEM.
 */
int job_selection_resolve(const struct job_selection *s, const struct jobs *js, struct id_list *ret,
	size_t *ret_num_named, struct gd_error *err);

void job_selection_finish(struct job_selection *s);

#endif
