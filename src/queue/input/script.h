/* SPDX-License-Identifier: MIT */
/*
 * A script with options for its job in comments, as people know it from Slurm:
 *
 *     #!/bin/bash
 *     #GPUQ --mem 12G --timeout 2h
 *     #SBATCH --job-name=train
 *
 * Comments count up to the first line that is neither empty nor a comment. A mistake in a #GPUQ line is an error. Of
 * #SBATCH, what has a meaning here is taken (script_sbatch.c), and everything else is reported with its line number.
 * Start from {0}.
 */
#ifndef QUEUE_INPUT_SCRIPT_H
#define QUEUE_INPUT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/input/job_options.h"

/* Something that is ignored, in words that begin with "FILE:LINE: ". */
typedef void script_note_fn(void *context, const char *words);

struct script {
	const char *path; /* as it was given */
	struct text content;
	char *interpreter;
	char *argument; /* of the interpreter; or NULL */
	struct job_options options;
	char *log_dir, *on_finish, *on_idle, *array; /* or NULL */
	bool hold;
	bool has_options; /* it has a #GPUQ or #SBATCH line */
	script_note_fn *note;
	void *context;
};

/*
 * 1; 0: it is not a readable regular file that begins with "#!", or it has no '/' in its name and another user can have
 * put it there. -EINVAL: a mistake in it, with words that begin with "FILE:LINE: ". -EFBIG: it is too large to be kept.
 * -ENOEXEC: its first line names no interpreter.
 */
int script_read(struct script *s, const char *path, script_note_fn *note, void *context, struct gd_error *err);
void script_finish(struct script *s);

/* For script_sbatch.c: one option, "mem", of a line that is called `where`. */
int script_set(struct script *s, enum job_option option, const char *value, struct gd_error *err);
/* One option of a #SBATCH line; value: NULL if there is none. 0; 1: ignored; 2: taken, and err says how. -EINVAL, with
 * words. */
int script_set_sbatch(struct script *s, const char *name, const char *value, struct gd_error *err);
/* Whether the option of this name, "job-name" or "J", takes a value that may be the next word. */
bool script_sbatch_takes_value(const char *name);

#endif
