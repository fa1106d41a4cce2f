/* SPDX-License-Identifier: MIT */
/*
 * The journal of a queue as its coordinator has it: what coordinator_core.h asks of its caller.
 *
 *     coordinator_journal_open(): takes runner.lock, reads all, raises the fence, appends and syncs `coordinator`
 *     coordinator_journal_restore(): tells the core what the journal says
 *     in each round of the loop:
 *             coordinator_journal_read(): what others have appended; calls on_change
 *             coordinator_journal_append(), for each COORDINATOR_WRITE
 *             coordinator_journal_sync(), then COORDINATOR_WRITTEN for each that was appended
 *
 * The fence is also raised by `cancel`, `hold` and the like, which do not take the queue away. So when the fence has
 * changed, the journal is read to its end under the append lock, and the epoch that stands there decides.
 */
#ifndef SLURM_COORDINATOR_JOURNAL_H
#define SLURM_COORDINATOR_JOURNAL_H

#include "gpu_dispatch.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"
#include "slurm/coordinator_core.h"

struct coordinator_journal;

struct coordinator_journal_options {
	struct journal *journal; /* stays the caller's, and open longer than this */
	int64_t lease_ms;        /* that this coordinator will grant */
	bool takeover;           /* also if pilots of a coordinator on another host may live */
	/*
	 * After a change of a job, as in struct jobs; not while the whole journal is read. Also from inside
	 * coordinator_journal_append() and coordinator_journal_check().
	 */
	void (*on_change)(void *context, struct job *job, int old_state);
	/* As in struct jobs; not while the whole journal is read. */
	void (*on_hook_failed)(void *context, const struct job *job, const struct record *outcome);
	/* The journal was read from its beginning: all pointers to jobs of before are gone. */
	void (*on_reload)(void *context);
	void *context;
};

/*
 * -EBUSY, without words: *ret_holder runs the queue. -EREMOTE: pilots of a coordinator on another host may live.
 * Neither on_change nor on_reload is called.
 */
int coordinator_journal_open(const struct coordinator_journal_options *options, struct coordinator_journal **ret,
	pid_t *ret_holder, struct gd_error *err);
/* Gives up runner.lock. NULL is fine. */
void coordinator_journal_close(struct coordinator_journal *c);

/*
 * Gives up runner.lock under the append lock if is_over() says so after all was read: 1; 0: there is more to do. An
 * `add` that is not seen here finds that nobody runs the queue.
 */
int coordinator_journal_leave(
	struct coordinator_journal *c, bool (*is_over)(void *context), void *context, struct gd_error *err);

const struct jobs *coordinator_journal_jobs(const struct coordinator_journal *c);
/* Epoch and largest lease for coordinator_core_create(); the rest is as it was. */
void coordinator_journal_settings(const struct coordinator_journal *c, struct coordinator_settings *settings);
/* Pilots that are not gone, and attempts on pilots that run: 0 or -ENOMEM. */
int coordinator_journal_restore(const struct coordinator_journal *c, struct coordinator_core *core);
/* How often the job was lost with its pilot. */
unsigned coordinator_journal_losses(const struct job *job);

int coordinator_journal_read(struct coordinator_journal *c, struct gd_error *err);

/* What a `start` says that the core does not know. */
struct start_details {
	const int *gpus; /* as the driver of the node numbers them */
	size_t num_gpus;
	const char *log;       /* absolute */
	int retries;           /* the default of this coordinator, for a job that does not set them */
	const char *on_finish; /* the same; or NULL */
};

/*
 * Appends what the core asked for. 0: it stands in the journal, maybe since an earlier coordinator, and is not synced
 * yet. Otherwise nothing does: -ESTALE: another coordinator has the queue; -ECANCELED: the job is not pending any more,
 * or the queue is paused; or why it could not be written. details: of WRITE_START, otherwise NULL.
 */
int coordinator_journal_append(struct coordinator_journal *c, const struct coordinator_write *w,
	const struct start_details *details, struct gd_error *err);
/* All that was appended survives a power cut. */
int coordinator_journal_sync(struct coordinator_journal *c, struct gd_error *err);
/* The name of this host. */
const char *coordinator_journal_host(const struct coordinator_journal *c);
/* Under which the queue was last seen to be ours: for orders to keepers of this host. */
uint64_t coordinator_journal_fence(const struct coordinator_journal *c);
/* For COORDINATOR_CHECKED: 0, -ESTALE, or why it is not known. */
int coordinator_journal_check(struct coordinator_journal *c, struct gd_error *err);

#endif
