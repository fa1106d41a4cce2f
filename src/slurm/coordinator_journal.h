/* SPDX-License-Identifier: MIT */
/*
 * The journal of a queue for its coordinator: implements the journal operations that coordinator_core.h requires.
 *
 *     coordinator_journal_open(): takes runner.lock, reads all, raises the fence, appends and syncs `coordinator`
 *     coordinator_journal_restore(): restores the core from the journal
 *     in each round of the loop:
 *             coordinator_journal_read(): reads new lines of other processes; calls on_change
 *             coordinator_journal_add(), for each COORDINATOR_WRITE
 *             coordinator_journal_append(): all of them
 *             coordinator_journal_sync(), then COORDINATOR_WRITTEN for each that was appended
 *
 * The fence is also raised by `cancel`, `hold` and similar commands, which do not take over the queue. So when the
 * fence has changed, the journal is read to its end under the append lock, and the epoch found there decides.
 */
#ifndef SLURM_COORDINATOR_JOURNAL_H
#define SLURM_COORDINATOR_JOURNAL_H

#include "gpu_dispatch.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "slurm/coordinator_core.h"

struct coordinator_journal;

struct coordinator_journal_options {
	struct journal *journal; /* owned by the caller; must stay open longer than this */
	int64_t lease_ms;        /* the lease that this coordinator will grant */
	bool takeover;           /* even if pilots of a coordinator on another host may be alive */
	/*
	 * Called after a job has changed, as in struct jobs, but not while the whole journal is read. Also called
	 * inside coordinator_journal_append() and coordinator_journal_check().
	 */
	void (*on_change)(void *context, struct job *job, int old_state);
	/* As in struct jobs; not while the whole journal is read. */
	void (*on_hook_failed)(void *context, const struct job *job, const struct record *outcome);
	/* The journal was read again from its start: all earlier pointers to jobs are invalid. */
	void (*on_reload)(void *context);
	void *context;
};

/*
 * -EBUSY, without a message: *ret_holder runs the queue. -EREMOTE: pilots of a coordinator on another host may be
 * alive. Neither on_change nor on_reload is called.
 */
int coordinator_journal_open(const struct coordinator_journal_options *options, struct coordinator_journal **ret,
	pid_t *ret_holder, struct gd_error *err);
/* Releases runner.lock. NULL is allowed. */
void coordinator_journal_close(struct coordinator_journal *c);

/*
 * Reads the journal under the append lock; if is_over() then returns true, releases runner.lock and returns 1;
 * otherwise returns 0. An `add` that comes too late to be read here finds that the queue has no runner.
 */
int coordinator_journal_leave(
	struct coordinator_journal *c, bool (*is_over)(void *context), void *context, struct gd_error *err);

const struct jobs *coordinator_journal_jobs(const struct coordinator_journal *c);
/* Sets epoch and largest lease for coordinator_core_create(); other fields are unchanged. */
void coordinator_journal_settings(const struct coordinator_journal *c, struct coordinator_settings *settings);
/* Restores pilots that are not gone and running attempts on pilots. Returns 0 or -ENOMEM. */
int coordinator_journal_restore(const struct coordinator_journal *c, struct coordinator_core *core);
/* How many times the job was lost with its pilot. */
unsigned coordinator_journal_losses(const struct job *job);

int coordinator_journal_read(struct coordinator_journal *c, struct gd_error *err);

/*
 * After a foreign lock (base/lock.h) has prevented the append lock, functions that need the append lock fail at once
 * with LOCK_BLOCKED for a while. Returns the time until which they do; 0: they may be called.
 */
uint64_t coordinator_journal_blocked_ns(const struct coordinator_journal *c);
/* Names the process that has the foreign lock; NULL: the last attempt to take the lock did not fail for this reason. */
const char *coordinator_journal_blocked_words(const struct coordinator_journal *c);

/* Details of a `start` line that the core does not know. */
struct start_details {
	const int *gpus; /* as the driver of the node numbers them */
	size_t num_gpus;
	const char *log;       /* absolute */
	int retries;           /* the coordinator's default, for a job that does not set them */
	const char *on_finish; /* likewise a default; or NULL */
};

/* Keeps a line that the core requested for the next append. details: for WRITE_START, otherwise NULL. 0 or -ENOMEM. */
int coordinator_journal_add(
	struct coordinator_journal *c, const struct coordinator_write *w, const struct start_details *details);
/*
 * The result of the write with this number. 0: the line is in the journal, perhaps written by an earlier coordinator,
 * and is not synced yet. Otherwise the line is not there: -ESTALE: another coordinator owns the queue; -ECANCELED: the
 * job is no longer pending, the queue is paused, or a foreign lock prevents the start; or the write error.
 */
typedef void coordinator_appended_fn(void *context, uint64_t number, int result);
/* Appends all lines that were added, under one lock, and calls fn for each. False if there were none. */
bool coordinator_journal_append(
	struct coordinator_journal *c, coordinator_appended_fn *fn, void *context, struct gd_error *err);
/* Appends lines that do not depend on the epoch. */
int coordinator_journal_append_lines(
	struct coordinator_journal *c, const void *lines, size_t size, struct gd_error *err);
/* After this call, all appended lines survive a power cut. */
int coordinator_journal_sync(struct coordinator_journal *c, struct gd_error *err);
/* The name of this host. */
const char *coordinator_journal_host(const struct coordinator_journal *c);
/* The fence at which the queue was last seen to be ours: for orders to keepers of this host. */
uint64_t coordinator_journal_fence(const struct coordinator_journal *c);
/* The result for COORDINATOR_CHECKED: 0, -ESTALE, or the error of the check. */
int coordinator_journal_check(struct coordinator_journal *c, struct gd_error *err);

#endif
