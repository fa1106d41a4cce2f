/* SPDX-License-Identifier: MIT */
/* Shared by the files of `gpuq run`. No other file includes this. */
#ifndef CLI_RUN_PARTS_H
#define CLI_RUN_PARTS_H

#include <stdio.h>

#include "cli/queue_choice.h"
#include "cli/run_own_jobs.h"
#include "cli/run_report.h"
#include "queue/input/id_list.h"
#include "queue/journal/journal.h"
#include "queue/runner/runner.h"

struct run;

/* Runs the queue: a runner on this machine, or a coordinator of pilots. */
struct run_engine {
	/* 0: it holds the lock of the queue; -EBUSY, without a message: process *ret_holder runs the queue. */
	int (*create)(struct run *run, struct journal *j, void **ret, pid_t *ret_holder);
	/* 1: there may be new jobs; create another one. */
	int (*run)(struct run *run, void *engine, struct runner_result *ret);
	void (*destroy)(void *engine); /* NULL is fine */
	bool on_slurm;
};

struct run {
	const struct run_engine *engine;
	struct queue_choice queue;
	uint64_t linger_ms, grace_ms;
	bool quiet, no_panel, takeover;
	bool failed_before; /* the file has nothing new, and not all of its commands have completed */
	bool made_queue;    /* the journal did not exist before */
	int ready_fd;       /* pipe to the process that started us in the background; -1: none */
	/* As typed, for a runner in the background; NULL: not given. */
	const char *given[CONFIG_KEYS], *given_grace;
	struct gd_error err;
	struct commands *commands;   /* to add; NULL: none, or already added */
	struct id_list ids;          /* jobs that this command has added, or waits for */
	struct run_own_jobs own;     /* the same jobs, if another process runs them */
	struct runner_result so_far; /* of runners that ended because the directory of the queue was renamed */
	uint64_t lost;               /* jobs of the queue whose `add` was lost, if another process runs it */
	struct run_report report;
	char *file; /* the commands file; NULL: none, or a pipe */
	char *log_dir;
};

/* cmd_run.c: the name of the option for a setting; NULL: none. */
const char *run_option_name(enum config_key key);
/* cmd_run.c: where messages for the user go. */
FILE *run_out(const struct run *run);
/* cmd_run.c: reports that this many jobs lost their `add`; 0: prints nothing. */
void run_say_lost(const char *journal_path, uint64_t count);

/* cmd_run.c: the settings that reach the keepers, the same for both engines. */
struct order_defaults run_order_defaults(const struct run *run);

/* cmd_run.c: callback of the engine; the context is the run. */
void run_on_ready(void *context);
/* cmd_run.c: the whole command. */
int run_main(int argc, char **argv, const struct run_engine *engine);

/* Kinds of pilots: how many times --slurm can be given. */
#define RUN_MOST_KINDS 16

/* run_slurm_check.c: checks for incompatible options, after the configuration was read. */
int run_check_slurm(struct run *run);

/* run_commands.c */
/* The commands file; NULL: none. */
const char *run_commands_file(const struct run *run);
/* Adds its new lines. another_runs: another process runs the queue. */
int run_add_commands(struct run *run, struct journal *j, bool another_runs);
/* If nothing is new: sets `failed_before`, and reports failed commands. */
void run_look_at_what_failed_before(struct run *run);

/* run_renamed.c */
/* The directory of the queue was renamed: opens the journal at its new path, with all checks, and replaces *j. */
int run_follow_queue(struct run *run, struct journal **j);

/* run_handover.c */
/* Waits for our jobs, which `holder` runs. 1: it has ended, try to be the runner. 0: all jobs have ended, or
 * the user has interrupted the wait. */
int run_hand_over(struct run *run, pid_t holder);
bool run_was_interrupted(void);
void run_say_what_is_ignored(const struct run *run);

/* run_background.c */
int run_in_background(struct run *run, struct journal *j);

#endif
