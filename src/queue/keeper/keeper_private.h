/* SPDX-License-Identifier: MIT */
/*
 * The state of a keeper process. Only keeper.c and keeper_*.c include this.
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
#include "queue/keeper/keeper_lease.h"
#include "queue/keeper/keeper_links.h"
#include "queue/keeper/keeper_messages.h"

/* At once; more wait until one has left. */
#define KEEPER_VISITORS 4

enum keeper_phase {
	KEEPER_IDLE,
	KEEPER_RUNNING,
	KEEPER_ENDING,  /* the job was sent SIGTERM */
	KEEPER_KILLING, /* what is left of it is sent SIGKILL, again and again */
	KEEPER_HOLDING, /* the job is over; its end is held back, see allocation.h */
};

struct keeper {
	const struct nursery_options *options;
	struct keeper_lease *lease; /* NULL: a keeper of a runner */
	struct journal *journal;
	struct keeper_link runner; /* fd -1: it is gone */
	struct keeper_link visitors[KEEPER_VISITORS];
	int listen_fd;
	bool adopted;     /* by a later runner: leave when the job is over */
	bool interrupted; /* SIGTERM said that the allocation ends: no job is started any more */
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
	bool gpu_full;       /* as last reported, and the same for these two */
	int64_t mean_power_mw, power_span_ms;
	int64_t idle_at_ms, idle_since_ms, idle_ms; /* as last reported; idle_at_ms 0: no warning was due */
	uint64_t idle_gpus;                         /* see struct keeper_order */
	bool cancel_asked;
	const char *reason; /* why we ended the job; NULL: we did not */
	uint64_t started_ns, deadline_ns, step_ns;
	uint64_t warn_ns;   /* when the job's own signal is due; 0: there is none, or it was sent */
	bool warned;        /* it was sent */
	uint64_t paused_ns; /* since when the job is stopped; 0: it is not */
	uint64_t killed_ns; /* time of the first SIGKILL; 0: not yet */
	bool stuck;         /* the journal says that the job cannot be killed */
	struct keeper_claim claim;
};

/* Signals and sockets, of which none is there yet. Only `options` and `lease` are set before. */
int keeper_init(struct keeper *k);
/* Waits for something to happen, and does it. */
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
/* Does what is due by now: warnings, time limits, the next SIGKILL. */
void keeper_on_time(struct keeper *k);
/*
 * Until when a sign that the allocation ends explains the end of the job's first process: at most as long after it as
 * the job took, if the process was not killed. 0: nothing does.
 */
uint64_t keeper_explained_until_ns(const struct keeper *k);

/* keeper_orders.c: obeys the orders that have arrived. A job or a hook is sent only to an idle keeper. */
void keeper_take_orders(struct keeper *k, struct keeper_link *l);

/* To the runner, if it still lives. */
void keeper_send_notes(struct keeper *k, struct keeper_note *notes, size_t count);
void keeper_send_note(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);
/* A note and KEEPER_NOTE_READY at once: in between the runner would ask for another keeper. */
void keeper_send_note_and_ready(struct keeper *k, enum keeper_note_kind kind, uint64_t id, int code);

/* Ends this process. */
_Noreturn void keeper_leave(struct keeper *k);

/* No process of the job is left: writes its end, or says that it never started. */
void keeper_finish_job(struct keeper *k);
/* Makes sure that the keeper has a journal, a name and a locked file. */
int keeper_open(struct keeper *k);
/* Appends a line that must not be lost: tries until it is written. */
void keeper_append(struct keeper *k, const struct text *line);
/* Waits before the next try to write. Leaves if the journal's folder has been missing for too long. */
void keeper_wait_for_journal(struct keeper *k);

/* keeper_hook.c: for the end that we have just written, or that KEEPER_ORDER_HOOK tells of. Both end with
 * KEEPER_NOTE_READY. */
void keeper_hook_after_end(struct keeper *k, const struct text *end_line);
void keeper_hook_ordered(struct keeper *k, const struct keeper_order *order, char *payload);

#endif
