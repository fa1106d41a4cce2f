/* SPDX-License-Identifier: MIT */
/* What the files of `gpuq run` share. Nobody else includes this. */
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

/* What runs the queue: a runner on this machine, or a coordinator of pilots. */
struct run_engine {
	/* 0 with the lock of the queue; -EBUSY, without words: *ret_holder runs it. */
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
	bool failed_before; /* the file has nothing new, and not all of its commands were completed */
	bool made_queue;    /* there was no journal before */
	int ready_fd;       /* where who started us in the background waits; -1: nobody does */
	/* As they were typed, for a runner in the background; NULL: not given. */
	const char *given[CONFIG_KEYS], *given_grace;
	struct gd_error err;
	struct commands *commands; /* to be added; NULL: none, or done */
	struct id_list ids;        /* that this command has added, or waits for */
	struct run_own_jobs own;   /* the same, since another runs them */
	uint64_t lost;             /* jobs of the queue whose `add` was lost, if another runs it */
	struct run_report report;
	char *file; /* the commands file; NULL: none, or a pipe */
	char *log_dir;
};

/* cmd_run.c: how the option is called that sets it; NULL: none does. */
const char *run_option_name(enum config_key key);
/* cmd_run.c: where lines for people go. */
FILE *run_out(const struct run *run);
/* cmd_run.c: so many jobs lost their `add`; 0: says nothing. */
void run_say_lost(const char *journal_path, uint64_t count);

/* cmd_run.c: for the engine; the context is the run. */
void run_on_ready(void *context);
/* cmd_run.c: all of the command. */
int run_main(int argc, char **argv, const struct run_engine *engine);

/* Of pilots: how often --slurm can be given. */
#define RUN_MOST_KINDS 16

/* run_slurm_check.c: options that do not go together; the configuration was read. */
int run_check_slurm(struct run *run);

/* run_commands.c */
/* The commands file; NULL: there is none to add. */
const char *run_commands_file(const struct run *run);
/* Those lines of it that are new. another_runs: the queue has a runner, which is not us. */
int run_add_commands(struct run *run, struct journal *j, bool another_runs);
/* Where nothing is new: sets `failed_before`, and says so. */
void run_look_at_what_failed_before(struct run *run);

/* run_handover.c */
/* Waits for our jobs, which `holder` runs. 1: it is gone, try to be the runner. 0: all are over, or interrupted. */
int run_hand_over(struct run *run, pid_t holder);
bool run_was_interrupted(void);
void run_say_what_is_ignored(const struct run *run);

/* run_background.c */
int run_in_background(struct run *run, struct journal *j);

#endif
