/* SPDX-License-Identifier: MIT */
/* The parts of `gpuq exec` and `gpuq shell`. Only cmd_exec.c, cmd_shell.c and exec_*.c include this. */
#ifndef CLI_EXEC_PARTS_H
#define CLI_EXEC_PARTS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/command_words.h"
#include "cli/exec_notice.h"
#include "cli/queue_choice.h"
#include "queue/input/job_options.h"
#include "queue/journal/follow.h"
#include "queue/keeper/lease.h"

struct exec {
	struct queue_choice queue;
	struct job_options options;
	struct command_words command;
	bool shell; /* `gpuq shell` */
	bool quiet, no_wait;
	uint64_t wait_ms; /* --wait-timeout; 0: none */

	struct journal *journal;
	struct follow follow;
	struct lease lease;
	struct exec_notice notice;
	uint64_t id;
	sigset_t mask; /* the original mask, for the command */
	struct gd_error err;
};

extern const struct argp exec_argp, exec_shell_argp; /* their input is a struct exec */

/* Runs either command; returns the exit code. */
int exec_main(struct exec *e);

/* Call before the job is added: from then on a signal must withdraw the job, which exec_wait() does. */
void exec_block_signals(void);
/*
 * Waits until the command was started or failed to start; *ret is then the keeper's message. Returns 0; -EINTR with
 * the signal's number in *ret_signal, and the job cancelled; or another error, and the job no longer waits.
 */
int exec_wait(struct exec *e, struct lease_message *ret, int *ret_signal);

/*
 * Runs alongside the command until it ends: forwards signals, stops and continues with it, and returns the terminal.
 * `first`: the message of exec_wait(). Returns the exit code.
 */
int exec_attend(struct exec *e, const struct lease_message *first);

#endif
