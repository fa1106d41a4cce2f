/* SPDX-License-Identifier: MIT */
/*
 * How many pilots are submitted to Slurm, and when: a pure core, as coordinator_core.h.
 *
 * One object for each kind of pilot (the options of one --slurm). Every second or so, and after each event, the caller
 * says what the queue needs (submission_set_demand()) and asks submission_next() until it answers SUBMISSION_NONE.
 *
 * After an sbatch that failed or timed out it is uncertain whether Slurm has the job. Then nothing more is submitted
 * until a listing that began later has succeeded: the job is in it, by its unique name, or it was not submitted. A
 * pilot that ends soon after its start, without having been welcomed or without having had a job, makes the next
 * submission wait: 5 s, doubled each time up to 10 min; pilots that end during that wait do not lengthen it. A pilot
 * that had a job, or was preempted, does not count. After `give_up` such failures in a row nothing is submitted any
 * more.
 *
 * A pilot that is idle for `idle_ns` is released, also if jobs wait: they evidently do not fit on it. If it never had
 * one, that is a failure, too.
 */
#ifndef SLURM_SUBMISSION_H
#define SLURM_SUBMISSION_H

#include "slurm/frame.h"
#include "slurm/listing.h"

/* Pilots that wait in Slurm's queue at a time. */
#define SUBMISSION_MAX_PENDING 8

struct submission;

struct submission_settings {
	unsigned max_nodes;           /* pilots at a time, pending ones included; 0: 1 */
	unsigned max_pending;         /* 0: SUBMISSION_MAX_PENDING */
	char prefix[FRAME_NAME_ROOM]; /* of job names, unique for this queue and epoch: a name is "<prefix>-<number>" */
	unsigned gpus;                /* of one pilot, as asked for; 0: not known before the first one greets */
	uint64_t idle_ns;             /* 0: 30 s; a pilot without a job for so long is released */
	unsigned give_up;             /* 0: never */
};

/* What the queue needs now. */
struct submission_demand {
	size_t waiting_jobs; /* ready jobs that fit a pilot of this kind and do not fit on those that are there now */
	size_t waiting_gpus; /* GPUs that these want in all; jobs without one count as 0 */
	size_t fitting_jobs_per_pilot; /* how many of them one pilot takes at a time; 0: as gpus and waiting_gpus say */
	size_t pilots;                 /* how many pilots take all of them; 0: as the others say */
};

enum submission_step_kind {
	SUBMISSION_NONE = 0, /* nothing now; call again at `wake_ns` (0: after the next event) */
	SUBMISSION_SUBMIT,   /* sbatch with the job name `name`; answer with submission_submitted() */
	SUBMISSION_LIST, /* a listing is needed to know whether an sbatch succeeded; answer with submission_listed() */
	SUBMISSION_RELEASE, /* release the pilot `name` (COORDINATOR_RELEASE_PILOT): it is idle */
	SUBMISSION_CANCEL,  /* scancel `slurm_job`: it is pending and not needed any more, or the coordinator exits */
};

struct submission_step {
	enum submission_step_kind kind;
	char name[FRAME_NAME_ROOM]; /* SUBMIT: of the Slurm job; RELEASE: of the pilot */
	uint64_t slurm_job;
	uint64_t wake_ns;
};

int submission_create(const struct submission_settings *settings, struct submission **ret);
void submission_destroy(struct submission *s);

void submission_set_demand(struct submission *s, const struct submission_demand *demand);
void submission_next(struct submission *s, uint64_t now_ns, struct submission_step *ret);

/*
 * The answer to SUBMISSION_SUBMIT. result 0: `slurm_job` is its id. -EINVAL: Slurm refused it for good (a wrong
 * option, a limit), and nothing was submitted: `words`. Any other: uncertain. 0 or -ENOMEM.
 */
int submission_submitted(
	struct submission *s, uint64_t now_ns, const char *name, int result, uint64_t slurm_job, const char *words);
/* A listing; begun_ns: when its first command was started. Each listing that the coordinator makes is passed on. */
int submission_listed(struct submission *s, uint64_t now_ns, uint64_t begun_ns, const struct slurm_listing *listing);
/* COORDINATOR_READY for the first time: the pilot of this Slurm job has greeted, with so many GPUs. */
int submission_joined(struct submission *s, uint64_t now_ns, uint64_t slurm_job, const char *pilot, size_t num_gpus);
/* How many attempts the pilot has now. */
void submission_set_busy(struct submission *s, uint64_t now_ns, const char *pilot, size_t num_attempts);
/* COORDINATOR_GONE. preempted: Slurm ended it, not the pilot itself. words: why, for people; or NULL. */
void submission_gone(struct submission *s, uint64_t now_ns, const char *pilot, bool preempted, const char *words);
/* Nothing is submitted, pending pilots are cancelled and idle ones released; until there is work again (false). */
void submission_set_leaving(struct submission *s, bool leaving);
/* Of all kinds together there may be more pilots or fewer now: how many of this one. */
void submission_set_max_nodes(struct submission *s, unsigned max_nodes);

/* Whether the job was submitted here. */
bool submission_has_job(const struct submission *s, uint64_t slurm_job);
/* Nothing is submitted any more, whatever waits: submission_words() says why. */
bool submission_has_given_up(const struct submission *s);
/* The Slurm job of the last pilot that failed before it greeted, for its output; 0: none. */
uint64_t submission_failed_job(const struct submission *s);
/* All that are submitted or run. */
size_t submission_count(const struct submission *s);

/* Pilots that are submitted and have not greeted; that run. */
size_t submission_num_pending(const struct submission *s);
size_t submission_num_running(const struct submission *s);
/*
 * Why no pilot is being submitted although jobs wait, or what the pending ones wait for; "": nothing to say. Returns
 * `words`: "4 pilots pending in Slurm: Resources", "the last pilot failed at once (…); next try in 40 s".
 */
const char *submission_words(const struct submission *s, uint64_t now_ns, char words[FRAME_WORDS_ROOM]);

#endif
