/* SPDX-License-Identifier: MIT */
/*
 * The state of a keeper process. Only keeper.c and keeper_end.c include this.
 *
 * `attempt` and the fields from `pid` to `stuck` are those of the current job, and mean nothing
 * while the keeper is idle.
 */
#ifndef QUEUE_KEEPER_KEEPER_PRIVATE_H
#define QUEUE_KEEPER_KEEPER_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "queue/journal/journal.h"
#include "queue/keeper/attempt.h"
#include "queue/keeper/keeper_claim.h"
#include "queue/keeper/keeper_messages.h"

enum keeper_phase {
	KEEPER_IDLE,
	KEEPER_RUNNING,
	KEEPER_ENDING,  /* the job was sent SIGTERM */
	KEEPER_KILLING, /* what is left of it is sent SIGKILL, again and again */
};

struct keeper {
	const struct nursery_options *options;
	struct journal *journal;
	int runner_fd; /* -1: the runner is gone */
	int signal_fd;
	int lock_fd;
	int removed_ms; /* how long the journal's folder has been missing */
	char name[20];
	char lock_name[32];
	bool announced; /* the journal has its `keeper` line */
	struct attempt_page *page;

	struct attempt attempt;
	enum keeper_phase phase;
	pid_t pid; /* the job's first process */
	bool reaped;
	int status;
	int64_t peak_mem_mb; /* -1: not known */
	bool gpu_full;       /* as last reported */
	const char *reason;  /* why we ended the job; NULL: we did not */
	uint64_t started_ns, deadline_ns, step_ns;
	uint64_t killed_ns; /* time of the first SIGKILL; 0: not yet */
	bool stuck;         /* the journal says that the job cannot be killed */
	struct keeper_claim claim;
};

/* To the runner, if it still lives. */
void keeper_send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);
/* A note and KEEPER_NOTE_READY at once: in between the runner would ask for another keeper. */
void keeper_send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);

/* Ends this process. */
_Noreturn void keeper_leave(struct keeper *k);

/* No process of the job is left: writes its end, or says that it never started. */
void keeper_finish_job(struct keeper *k);
/* Takes over what a later runner has seen of the job, where our own is gone. True if the job's GPU is lost. */
bool keeper_hear_news(struct keeper *k);
/* result: of hook_run(). */
void keeper_after_hook(struct keeper *k, int result);

#endif
