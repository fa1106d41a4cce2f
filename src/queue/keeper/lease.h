/* SPDX-License-Identifier: MIT */
/*
 * A lease: a job whose keeper belongs to `gpuq exec`.
 *
 *     shell ── front (`gpuq exec`) ── keeper ── command
 *
 * The *front* is the process that the shell knows: it waits for a GPU, forwards signals, is stopped and continued with
 * the command, and exits with the status of the command. The *keeper* is an ordinary keeper (keeper.h) with one job. It
 * has its own process group, so that Ctrl-Z does not stop the process that enforces the time limit and obeys `gpuq
 * cancel`. The command is in the front's process group, with the front's terminal and standard files.
 *
 * The keeper exists before the job is added, and the job's `add` names it. The runner decides when it
 * is the lease's turn, connects to the keeper's socket, appends `grant` and gives the same order that
 * its own keepers get; the command's process appends `start` under the fence of that order.
 *
 * If the front dies, the keeper ends the command, or exits if there is none yet. If the keeper dies,
 * the command dies with it, and the front kills processes that the command left behind. If the
 * keeper's lock is free, the runner knows that a lease that has not started never will.
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
	LEASE_READY = 1, /* words: the keeper's name, for the job's `add` */
	LEASE_FAILED,    /* code: why there is no keeper */
	LEASE_STARTING,  /* the command is about to start; waits briefly for LEASE_GO; words: " on GPU 0" */
	LEASE_STARTED,   /* the command runs; code: its PID */
	LEASE_STOPPED,   /* the command was stopped; code: the signal */
	LEASE_ENDED,     /* its end is in the journal, and synced; code: as from waitpid(); words: the reason, or "" */
	LEASE_NOT_EXECUTED, /* the same; code: the error of exec, negative */
	/* front → keeper */
	LEASE_GO,     /* the command may use the terminal: the front has cleared its line */
	LEASE_SIGNAL, /* code: a signal for the command */
};

#define LEASE_WORDS 256

struct lease_message {
	uint32_t kind;
	int32_t code;
	char words[LEASE_WORDS];
};

struct lease {
	pid_t pid; /* PID of the keeper */
	int fd;
	char keeper[20]; /* its name */
};

/*
 * Forks the keeper, and waits until it has its name. Call it while the process is small and has one
 * thread. argv: the command, searched in PATH; mask: its blocked signals. The command inherits
 * everything else from the calling process.
 */
int lease_start(const struct journal *j, char **argv, const sigset_t *mask, struct lease *ret, struct gd_error *err);
/* Releases the keeper; it ends a command that still runs. */
void lease_finish(struct lease *l);

/* -EPIPE: the other process is gone. */
int lease_send(int fd, const struct lease_message *m);
/* Waits for a message. */
int lease_receive(int fd, struct lease_message *ret);

#endif
