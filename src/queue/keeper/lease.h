/* SPDX-License-Identifier: MIT */
/*
 * A lease: a job whose keeper belongs to `gpuq exec`.
 *
 *     shell ── front (`gpuq exec`) ── keeper ── command
 *
 * The *front* is the process that the shell knows: it waits for a GPU, passes signals on, is stopped and continued with
 * the command, and exits as the command did. The *keeper* is an ordinary keeper (keeper.h) with one job: it has a
 * process group of its own, so that Ctrl-Z does not stop what enforces the time limit and obeys `gpuq cancel`. The
 * command is in the front's process group, with the front's terminal and standard files.
 *
 * The keeper is there before the job is added, and the job's `add` names it. The runner decides when the lease has its
 * turn, appends `grant`, connects to the keeper's socket and gives the same order that its own keepers get; the
 * command's process appends `start` under the fence of that order.
 *
 * Deaths. The front: the keeper ends the command, or leaves if there is none yet. The keeper: the command dies with
 * it, the front kills what that left behind. The keeper's lock tells the runner that a lease that has not started
 * never will.
 *
 * Front and keeper are the same program and talk over a socket, one message at a time.
 */
#ifndef QUEUE_KEEPER_LEASE_H
#define QUEUE_KEEPER_LEASE_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"
#include "queue/journal/journal.h"

enum lease_message_kind {
	/* keeper → front */
	LEASE_READY = 1,    /* words: its name, for the job's `add` */
	LEASE_FAILED,       /* code: why there is no keeper */
	LEASE_STARTING,     /* the command is about to be started; waits a moment for LEASE_GO; words: " on GPU 0" */
	LEASE_STARTED,      /* the command runs; code: its PID */
	LEASE_STOPPED,      /* the command was stopped; code: by which signal */
	LEASE_ENDED,        /* its end is in the journal, and synced; code: as of waitpid(); words: why, or "" */
	LEASE_NOT_EXECUTED, /* the same; code: the error of exec, negative */
	/* front → keeper */
	LEASE_GO,     /* the terminal is the command's: the front has cleared its line */
	LEASE_SIGNAL, /* code: a signal for the command */
};

#define LEASE_WORDS 256

struct lease_message {
	uint32_t kind;
	int32_t code;
	char words[LEASE_WORDS];
};

struct lease {
	pid_t pid; /* of the keeper */
	int fd;
	char keeper[20]; /* its name */
};

/*
 * Forks the keeper, and waits until it has its name. Call it while the process is small and has one thread. argv: the
 * command, searched in PATH; mask: its blocked signals. The rest the command inherits from the calling process.
 */
int lease_start(const struct journal *j, char **argv, const sigset_t *mask, struct lease *ret, struct gd_error *err);
/* Lets the keeper go; it ends a command that still runs. */
void lease_finish(struct lease *l);

/* -EPIPE: the other process is gone. */
int lease_send(int fd, const struct lease_message *m);
/* Waits for a message. */
int lease_receive(int fd, struct lease_message *ret);

#endif
