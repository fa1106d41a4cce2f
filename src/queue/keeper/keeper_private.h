/* SPDX-License-Identifier: MIT */
/*
 * The state of a keeper process. Only keeper.c and keeper_*.c include this.
 *
 * `attempt` and the fields from `pid` to `stuck` belong to the current job, and are meaningless while
 * the keeper is idle.
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
#include "queue/keeper/keeper_lease.h"
#include "queue/keeper/keeper_links.h"
#include "queue/keeper/keeper_messages.h"

/* Concurrent visitors; more wait until one has left. */
#define KEEPER_VISITORS 4

enum keeper_phase {
	KEEPER_IDLE,
	KEEPER_RUNNING,
	KEEPER_ENDING,  /* the job was sent SIGTERM */
	KEEPER_KILLING, /* remaining processes are sent SIGKILL, repeatedly */
	KEEPER_HOLDING, /* the job has ended; its end is held back, see allocation.h */
};

struct keeper {
	const struct nursery_options *options;
	struct keeper_lease *lease; /* NULL: the keeper belongs to a runner */
	struct journal *journal;
	struct keeper_link runner; /* fd -1: the runner is gone */
	struct keeper_link visitors[KEEPER_VISITORS];
	int listen_fd;
	bool adopted;     /* by a later runner: exit after the job */
	bool interrupted; /* SIGTERM announced the end of the allocation: start no more jobs */
	int signal_fd;
	int lock_fd;
	int removed_ms; /* how long the journal's folder has been missing */
	char name[20];
	char lock_name[32];
	bool announced; /* the journal has its `keeper` line */
	struct attempt_page page;
	struct attempt_cache cache;

	struct attempt attempt;
	enum keeper_phase phase;
	pid_t pid; /* the job's first process */
	bool reaped;
	uint64_t reaped_ns;
	int status;
	int64_t peak_mem_mb; /* -1: not known */
	bool gpu_full;       /* as last reported, like the next two fields */
	int64_t mean_power_mw, power_span_ms;
	int64_t idle_at_ms, idle_since_ms, idle_ms; /* as last reported; idle_at_ms 0: no warning was due */
	uint64_t idle_gpus;                         /* see struct keeper_order */
	bool cancel_asked;
	const char *reason; /* why we ended the job; NULL: we did not */
	uint64_t started_ns, deadline_ns, step_ns;
	uint64_t warn_ns;   /* when to send the job's warn_signal; 0: never, or it was sent */
	bool warned;        /* warn_signal was sent */
	uint64_t paused_ns; /* since when the job has been stopped; 0: it is not stopped */
	uint64_t killed_ns; /* time of the first SIGKILL; 0: not yet */
	bool stuck;         /* the journal has a `stuck` line: the job cannot be killed */
	struct keeper_claim claim;
};

/* Sets up signals and sockets. Before it, only `options` and `lease` are set. */
int keeper_init(struct keeper *k);
/* Waits for events and handles them. */
void keeper_round(struct keeper *k);
/* Appends the keeper's `keeper` record, which names its machine. 0 or -errno. */
int keeper_write_own_line(const struct keeper *k, struct text *ret);

/* keeper_processes.c: true when no process of the job is left. */
bool keeper_reap(struct keeper *k);
/*
 * Begins to end the job: SIGTERM, and SIGKILL after the grace period or `at_once`. reason: NULL if the job has ended by
 * itself.
 */
void keeper_end_job(struct keeper *k, const char *reason, bool at_once);
/* Does what is due: warnings, time limits, the next SIGKILL. */
void keeper_on_time(struct keeper *k);
/*
 * If the end of the allocation is announced before this time, it counts as the cause of the end of the job's first
 * process. If a signal killed that process, this time is ALLOCATION_SIGNAL_MS after its end; otherwise it is
 * ALLOCATION_EXIT_MS after its end or, if that is less, as long after it as the process ran. 0: never.
 */
uint64_t keeper_explained_until_ns(const struct keeper *k);

/* keeper_orders.c: obeys the orders that have arrived. A job or a hook is sent only to an idle keeper. */
void keeper_take_orders(struct keeper *k, struct keeper_link *l);

/* Sends to the runner, if it is alive. */
void keeper_send_notes(struct keeper *k, struct keeper_note *notes, size_t count);
void keeper_send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);
/* Sends a note and KEEPER_NOTE_READY together: between two sends the runner would ask for another keeper. */
void keeper_send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);

/* Ends this process. */
_Noreturn void keeper_leave(struct keeper *k);

/* No process of the job is left: writes its end, or reports that it never started. */
void keeper_finish_job(struct keeper *k);
/* Makes sure that the keeper has a journal, a name and a locked file. */
int keeper_open(struct keeper *k);
/* Appends a line that must not be lost: retries until it is written. */
void keeper_append(struct keeper *k, const struct text *line);
/* Waits before the next write attempt. Exits if the journal's folder has been missing for too long. */
void keeper_wait_for_journal(struct keeper *k);

/* keeper_hook.c: runs the hook of the end that we have just written, or that KEEPER_ORDER_HOOK names. Both functions
 * send KEEPER_NOTE_READY last. */
void keeper_hook_after_end(struct keeper *k, const struct text *end_line);
void keeper_hook_ordered(struct keeper *k, const struct keeper_order *order, char *payload);

#endif
