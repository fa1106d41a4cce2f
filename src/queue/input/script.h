/* SPDX-License-Identifier: MIT */
/*
 * A script with the options of its job in comments, as in Slurm:
 *
 *     #!/bin/bash
 *     #GPUQ --mem 12G --timeout 2h
 *     #SBATCH --job-name=train
 *
 * Comments are read up to the first line that is neither empty nor a comment. A mistake in a #GPUQ line is an error.
 * Supported #SBATCH options are applied (script_sbatch.c); all others are reported with their line number. Start from
 * {0}.
 */
#ifndef QUEUE_INPUT_SCRIPT_H
#define QUEUE_INPUT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/input/job_options.h"

/* Reports an ignored option; the message begins with "FILE:LINE: ". */
typedef void script_note_fn(void *context, const char *words);

struct script {
	const char *path; /* as it was given */
	struct text content;
	char *interpreter;
	char *argument; /* argument of the interpreter, or NULL */
	struct job_options options;
	char *log_dir, *on_finish, *on_idle, *array; /* or NULL */
	bool hold;
	bool has_options; /* it has a #GPUQ or #SBATCH line */
	bool refused;     /* its name has no '/', and another user may have put it there */
	script_note_fn *note;
	void *context;
};

/*
 * 1; 0: it is refused, or not a readable regular file that begins with "#!". -EINVAL: a mistake in it; the message
 * begins with "FILE:LINE: ". -EFBIG: it is too large to be stored. -ENOEXEC: its first line names no interpreter.
 */
int script_read(struct script *s, const char *path, script_note_fn *note, void *context, struct gd_error *err);
void script_finish(struct script *s);

/* For script_sbatch.c: sets one option of the job from its text, as job_options_set() does. */
int script_set(struct script *s, enum job_option option, const char *value, struct gd_error *err);
/* Applies one option of a #SBATCH line; value: NULL if there is none. 0; 1: ignored; 2: applied with a difference that
 * err describes. -EINVAL with a message. */
int script_set_sbatch(struct script *s, const char *name, const char *value, struct gd_error *err);
/* Whether the option of this name, "job-name" or "J", takes a value that may be the next word. */
bool script_sbatch_takes_value(const char *name);

#endif
