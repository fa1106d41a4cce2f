/* SPDX-License-Identifier: MIT */
/*
 * What `gpuq` can do. Each command is a cmd_NAME.c that defines one of these;
 * the table in main.c lists it.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

struct command {
	const char *name;
	const char *summary; /* for the list of commands: a few words, no full stop */
	/* Parses argv[1…] with argp (argv[0] is "gpuq NAME"), does it, returns the exit code. */
	int (*run)(int argc, char **argv);
};

/* Exit codes of every command. */
enum {
	EXIT_DONE = 0,
	EXIT_WORK_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_INTERRUPTED = 130,
};

extern const struct command cmd_add;
extern const struct command cmd_cancel;
extern const struct command cmd_gpus;
extern const struct command cmd_hold;
extern const struct command cmd_launch;
extern const struct command cmd_logs;
extern const struct command cmd_prune;
extern const struct command cmd_release;
extern const struct command cmd_retry;
extern const struct command cmd_run;
extern const struct command cmd_status;
extern const struct command cmd_urgent;
extern const struct command cmd_wait;
extern const struct command cmd_web;
extern const struct command cmd_why;

#endif
