/* SPDX-License-Identifier: MIT */
/* The parts of `gpuq add`. Only cmd_add.c and add_*.c include this. */
#ifndef CLI_ADD_PARTS_H
#define CLI_ADD_PARTS_H

#include "base/hash.h"
#include "cli/queue_choice.h"
#include "queue/input/id_list.h"
#include "queue/input/job_options.h"
#include "queue/input/script.h"
#include "queue/input/sweep.h"

struct add {
	struct queue_choice queue;
	struct job_options options;
	int cwd_fd; /* the current directory, opened when the command began */
	bool hold, no_start, json, dry_run, zip, freeze;
	struct sweep sweep;
	struct id_list indices; /* parsed --array */
	bool is_script;         /* the command is a script */
	struct script script;
	char *script_path;   /* path of the script's copy */
	char **script_words; /* interpreter, its argument, the copy, arguments */
	char **words;        /* the command */
	int num_words;
	struct gd_error err;
};

extern const struct argp add_argp; /* its input is a struct add */

/* If the command is a script, reads the script and its options. */
int add_read_script(struct add *a);
/* Builds the words of the command. Call after queue_choice_resolve(). */
int add_take_script(struct add *a);
/* Keeps a copy of the script in the queue's folder, for the job `spec`, which borrows `name`. */
int add_keep_script(struct add *a, const struct journal *j, char name[HASH_TEXT], struct job_spec *spec);

/*
 * Warns on standard error that the program of the command cannot be found: probably a typo. The job is added
 * nevertheless, because another job may create the program.
 */
void add_warn_of_missing_program(const struct add *a);
/*
 * Warns on standard error that jobs with these needs, which were just added, can never start. started: a runner was
 * started for them.
 */
void add_warn(const struct journal *j, const struct job_spec *spec, const struct id_list *ids, bool started);
/* The same for a job that depends on such a job. */
void add_warn_of_dependencies(struct journal *j, const struct id_list *ids);

#endif
