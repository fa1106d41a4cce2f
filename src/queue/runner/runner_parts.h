/* SPDX-License-Identifier: MIT */
/* What the runner's files share. Nobody else includes this. */
#ifndef QUEUE_RUNNER_RUNNER_PARTS_H
#define QUEUE_RUNNER_RUNNER_PARTS_H

#include "base/hash.h"
#include "base/loop.h"
#include "base/pidref.h"
#include "gpu/probe.h"
#include "queue/keeper/keeper.h"
#include "queue/runner/runner.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/gpu_users.h"
#include "queue/schedule/ledger.h"
#include "queue/schedule/pending.h"
#include "queue/schedule/placement.h"

struct hook_wait;

/* One of our own keepers. */
struct runner_keeper {
	struct runner *runner;
	struct runner_keeper *next;
	int fd;
	struct loop_source *source;
	struct text out; /* not yet taken by the socket */
	size_t out_done;
	bool busy;               /* until it says that it is ready */
	bool hook;               /* with a hook alone */
	struct hook_wait *due;   /* that one, until the keeper is known to live */
	struct running *running; /* what it was given and has not ended */
	pid_t pid;               /* 0: it has not said yet */
	char notes[sizeof(struct keeper_note)];
	size_t notes_have;
};

/* A job that was handed to a keeper, ours or one of a runner before us. */
struct running {
	struct runner *runner;
	struct running *next;
	uint64_t id;
	struct runner_keeper *keeper; /* NULL: not ours, or its keeper is gone */
	bool started;                 /* `start` has been read */
	enum job_state told_state;    /* by its keeper, when it ended */
	bool ended;                   /* `end` too: kept until the GPUs are sampled again */
	bool foreign;                 /* on another machine: not ours to judge */
	bool stuck;                   /* it cannot be killed: its GPUs take no other job, and nobody waits for it */
	char stuck_words[JOB_STUCK_ROOM];
	uint64_t lost_ns;      /* when its keeper was found to be gone; 0: it is not */
	bool left;             /* by the last walk: processes of it live without their keeper */
	struct pidref watched; /* a keeper that is not ours; PIDREF_NONE: ours, or it cannot be watched */
	struct loop_source *source;
	int *gpus; /* positions in the list; one that was found may be on others, too */
	size_t num_gpus;
	bool cpu_only; /* it needs no GPU, ours or not */
	uint64_t promised_bytes;
	bool declared;
	struct claim *claim; /* until its keeper has its own; NULL: none, or not told */
	struct ledger_watch watch;
	uint64_t peak_bytes; /* the most that it was seen to use of a GPU */
	bool full;           /* when it was last seen: its GPU, and mostly by it */
	int64_t told_peak_mb;
	bool told_full, told_lost, told_settled;
	struct gpu_user user; /* its processes that are on a GPU */
};

/* What may go wrong for a while: said once, and once when it works again. */
enum runner_trouble {
	TROUBLE_FOLLOW,
	TROUBLE_WRITE,
	TROUBLE_START,
	TROUBLE_KEEPER,
	TROUBLE_END,
	TROUBLE_GPUS,
};

struct runner {
	struct journal *journal;
	struct runner_options options;
	const struct runner_watch *watch;
	struct runner_result result;
	struct machine machine;
	int lock_fd;
	uint64_t fence;
	bool fence_stale;

	struct loop *loop;
	struct loop_source *tick, *linger, *settle, *sync, *sample, *judge, *look;
	int watch_fd, signal_fd;
	struct journal_reader reader;
	struct jobs jobs;
	bool loading;
	bool sample_due;     /* the timer is set */
	uint64_t sampled_ns; /* 0: never yet */

	pid_t nursery_pid; /* 0: it died */
	bool subreaper;    /* we are; else what others leave behind comes to us too */
	bool orphaned;     /* a nursery died: what it kept may be our child now */
	int nursery_fd;
	int syncer_fd;
	bool sync_due; /* the timer is set */
	struct runner_keeper *keepers;
	unsigned unborn; /* keepers in a row that were gone before they said a word */

	struct gpu_probe *probe;
	struct loop_source *probe_source;
	struct gd_gpu_list *gpus;
	char *gpu_spec; /* of those that were there at first; NULL: as the options say */
	bool simulated;
	struct ledger_note *notes;
	struct claims *claims; /* NULL: simulated GPUs, or no place for them */
	struct claim *spare_claim;
	struct claims_list others;
	char queue_name[HASH_TEXT];
	unsigned back_offs; /* in a row */
	struct ledger ledger;
	struct placement_reservation reservation;
	struct pending *pending;

	struct running *running;
	size_t num_running; /* without those that are on another machine, are stuck, or have ended */
	size_t num_stuck;
	size_t num_cpu_jobs;
	size_t num_blocked; /* jobs that wait for other jobs */
	bool waits_for_gpu; /* of the last pass: a job may start when others end */
	long max_cpu_jobs;
	struct hook_wait *hooks, *last_hook; /* that are due */
	struct text to_append;               /* lines that are due at the end of the round */

	bool must_read, must_place, must_judge;
	unsigned troubles;       /* a bit for each that was said */
	int removed_ms;          /* so long it has waited for a queue that was removed */
	uint64_t pause_until_ns; /* nothing is started before: the disk is full, or the like */
	bool blocked;            /* an end cannot be written */
	int interrupts;
	bool leaving; /* SIGTERM */
	bool lingering;
	uint64_t failures;
	char own_env[HASH_TEXT]; /* for jobs that have none: those of the first gpu_dispatch */
	char *own_cwd;           /* likewise: where the journal is */
	struct text words;       /* said, and not yet taken by who reads */
	uint64_t unsaid;         /* lines for which there was no room any more */
	char *latest;            /* log to link as `latest` */
	struct gd_error error;
	int fatal;
};

/* runner_keepers.c */
struct runner_keeper *runner_keeper_get(struct runner *r); /* an idle one; NULL where none can be had */
int runner_keeper_send(struct runner_keeper *k, const struct keeper_order *order, const void *payload);
void runner_keepers_destroy(struct runner *r);
void running_cancel(struct running *run, bool at_once);
struct running *running_add(struct runner *r, uint64_t id);
void running_remove(struct running *run);

/* Whether it counts as running, and, while it does, as a job on the CPU. */
void running_count(struct running *run, int change);
void running_set_stuck(struct running *run, const struct job *job);

/* runner_orphans.c: what nobody but us is left to end. */
void runner_orphans_open(struct runner *r);
void runner_reap(struct runner *r);

/* runner_recover.c */
int runner_take_over(struct runner *r, struct gd_error *err);
/* Looks at each running job that has no keeper of ours: does its keeper live? */
void runner_judge(struct runner *r);
void runner_adopt(struct runner *r, struct job *job);
/* One of our keepers died with a job in its hands. */
void running_keeper_died(struct running *run);

/* runner_claims.c */
void runner_claims_open(struct runner *r);
void runner_claims_close(struct runner *r);
void runner_claims_read(struct runner *r);
void running_claim(struct running *run);
/* What its keeper is to claim; nothing where there are no claims. */
int running_claim_text(const struct running *run, struct text *t);
void running_unclaim(struct running *run);

/* runner_gpus.c */
int gpus_open(struct runner *r, struct gd_error *err);
void gpus_close(struct runner *r);
/* Where there is no probe any more: another one, now or with the next tick. */
void gpus_open_again(struct runner *r);
bool runner_foreign_pids(const struct runner *r);

/* runner_place.c */
void runner_place(struct runner *r);
void runner_enqueue(struct runner *r, struct job *job);
void runner_dequeue(struct runner *r, struct job *job);

/* runner_follow.c */
void runner_on_change(void *runner, struct job *job, int old); /* for jobs.on_change */
int runner_read(struct runner *r);
int runner_resync(struct runner *r, bool raise_fence);
void runner_append(struct runner *r); /* what is in to_append */

/* runner.c */
void runner_pause(struct runner *r, enum runner_trouble trouble, int code);
/* where: what is said after what was being done. */
void runner_pause_at(struct runner *r, enum runner_trouble trouble, const char *where, int code);
/* `works`: a bit for each kind of trouble that is over. */
void runner_works(struct runner *r, unsigned works);
void runner_plan_sync(struct runner *r);

/* The environment and directory for jobs that have none. */
int runner_surroundings(struct runner *r, struct gd_error *err);

/* runner_hooks.c */
void runner_hook_plan(struct runner *r, struct job *job);
bool runner_hook_is_planned(const struct runner *r, uint64_t id);
void runner_hooks_run(struct runner *r);
/* The keeper lives; it is gone, and never did: its hook is due again. */
void runner_hook_taken(struct runner_keeper *k);
void runner_hook_again(struct runner *r, struct runner_keeper *k);
void runner_hooks_close(struct runner *r);

/* runner_samples.c */
int runner_samples_open(struct runner *r);
/* Called in each round: sets the clock for the next sample while jobs run. */
void runner_samples_plan(struct runner *r);

/* runner_say.c: the lines for people. Who reads slowly, or not at all, must not hold up the queue. */
void runner_say(struct runner *r, const char *format, ...) GD_PRINTF(2, 3);
void runner_flush_words(struct runner *r, bool wait);
void runner_tell(struct runner *r, const struct job *job);

/* runner_watch.c: who looks on. */
int runner_watch_begin(struct runner *r);
/* False: nobody wants to know. */
bool runner_watch_changed(struct runner *r, const struct job *job, int old);
void runner_watch_end(struct runner *r);

#endif
