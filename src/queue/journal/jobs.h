/* SPDX-License-Identifier: MIT */
/*
 * All jobs of a journal: a fold over its lines.
 *
 * Jobs, attempts and keepers live in the fold's own memory until jobs_finish() or
 * jobs_reset(); strings that many jobs have in common are kept once, so equal strings
 * of a job_wish have equal addresses. Lines that make no sense are counted and ignored.
 */
#ifndef QUEUE_JOURNAL_JOBS_H
#define QUEUE_JOURNAL_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "queue/journal/job.h"

struct jobs {
	struct job **by_id; /* ascending */
	size_t count, capacity;
	size_t counts[JOB_STATES];
	uint64_t bad_lines;
	uint64_t first_bad_line; /* its number, from 1 */
	uint64_t last_id;
	int version;
	struct arena arena;
	struct intern strings;
	struct job_wish **wishes;
	size_t num_wishes, wishes_capacity;
	const struct keeper_info **keepers;
	size_t num_keepers, keepers_capacity;
	struct seen_lines *seen;
	/* Called after every change of a job; may be NULL. old_state: -1 for a new one. */
	void (*on_change)(void *context, struct job *job, int old_state);
	void *context;
};

/* Lines of a commands file whose jobs prune has taken out: they are not new when the file is added again. */
struct seen_lines {
	struct seen_lines *next;
	const char *file;   /* interned */
	const char *hashes; /* 32 hexadecimal digits each, without separators */
	size_t count;
};

void jobs_init(struct jobs *js);
void jobs_finish(struct jobs *js);
/* As after jobs_init(), keeping on_change and context. */
void jobs_reset(struct jobs *js);

/* A journal_line_fn: context is the struct jobs. 0, -ENOMEM, or -ENOTSUP where a newer gpuq wrote the journal. */
int jobs_apply(void *jobs, uint64_t line_no, const char *line, size_t size);

/* NULL: there is no such job. */
struct job *jobs_find(const struct jobs *js, uint64_t id);
/* Its index in by_id; js->count: there is no such job. */
size_t jobs_index(const struct jobs *js, uint64_t id);
/* The newest keeper of this name; NULL: there is none. */
const struct keeper_info *jobs_keeper(const struct jobs *js, const char *name, size_t size);

#endif
