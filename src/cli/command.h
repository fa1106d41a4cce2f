/* SPDX-License-Identifier: MIT */
/*
 * A command of gpuq. Each cmd_NAME.c defines one; the table in command_table.c lists it.
 * The programs that gpuq executes parse their command lines and fail in the same way.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "gpu_dispatch.h"

struct command {
	const char *name;
	const char *summary; /* for the list of commands: a few words, no full stop */
	/* Parses argv[1…] with argp (argv[0] is "gpuq NAME"), runs the command, returns the exit code. */
	int (*run)(int argc, char **argv);
	/* Bits of enum job_state: states of the jobs that the command applies to; 0: all. For completion. */
	unsigned job_states;
};

/* Parses with argp; an error of argp itself ends the program with EXIT_USAGE. */
struct argp;
void command_parse(const struct argp *argp, int argc, char **argv, void *input);
/* The same, for commands whose arguments are a command: the options of that command are not parsed. */
void command_parse_in_order(const struct argp *argp, int argc, char **argv, void *input);

/*
 * For completion: with a hook, command_parse() and command_show() call it with the command's argp. The hook does not
 * return. A command that is a separate program calls command_show() with that program's argp.
 */
typedef void command_argp_fn(const struct argp *argp, int argc, char **argv);
void command_set_hook(command_argp_fn *hook);
void command_show(const struct argp *argp, int argc, char **argv);

/* A child of every command's argp: -h, the same as --help, and --verbose. */
extern const struct argp command_help_argp;

/* Prints the error. Returns EXIT_USAGE if `code` (-errno) is a user mistake, else EXIT_WORK_FAILED. */
int command_fail(const struct gd_error *err, int code);

extern const struct command cmd_add;
extern const struct command cmd_cancel;
extern const struct command cmd_edit;
extern const struct command cmd_config;
extern const struct command cmd_doctor;
extern const struct command cmd_exec;
extern const struct command cmd_gpus;
extern const struct command cmd_hold;
extern const struct command cmd_info;
extern const struct command cmd_launch;
extern const struct command cmd_logs;
extern const struct command cmd_map;
extern const struct command cmd_pause;
extern const struct command cmd_prune;
extern const struct command cmd_queues;
extern const struct command cmd_verify;
extern const struct command cmd_release;
extern const struct command cmd_report;
extern const struct command cmd_resume;
extern const struct command cmd_retry;
extern const struct command cmd_run;
extern const struct command cmd_shell;
extern const struct command cmd_slurm;
extern const struct command cmd_status;
extern const struct command cmd_top;
extern const struct command cmd_urgent;
extern const struct command cmd_wait;
extern const struct command cmd_web;
extern const struct command cmd_why;

#endif
