/* SPDX-License-Identifier: MIT */
/*
 * Decides how many pilots to submit to Slurm, and when. A pure core like coordinator_core.h.
 *
 * One object for each kind of pilot (the options of one --slurm). Every second or so, and after each event, the caller
 * sets the demand of the queue (submission_set_demand()) and calls submission_next() until it returns SUBMISSION_NONE.
 *
 * After an sbatch that failed or timed out it is uncertain whether Slurm has the job. Then nothing more is submitted
 * until a listing that began later has succeeded: either it contains the job, by its unique name, or the job was not
 * submitted. A pilot that ends soon after its start, without having been welcomed or without having had a job, makes
 * the next submission wait: 5 s, doubled each time up to 10 min; pilots that end during that wait do not lengthen it. A
 * pilot that had a job, or was preempted, does not count. After `give_up` such failures in a row nothing more is
 * submitted.
 *
 * If Slurm refuses the options permanently before it has accepted any pilot, nothing more is submitted. A pilot that
 * Slurm accepts but will never start because of its options (PartitionTimeLimit) is cancelled, and counts as such a
 * refusal. Once Slurm has accepted a pilot, its configuration may be changing: such refusals are retried, and after
 * `give_up` of them in a row without any pilot nothing more is submitted. Temporary refusals, and an sbatch that could
 * not reach Slurm, are retried without limit. These retries are 5 s apart, doubled each time up to a minute.
 *
 * A pilot that is idle for `idle_ns` is released, even if jobs wait: they evidently do not fit on it. If it never had a
 * job, that is a failure, too.
 */
#ifndef SLURM_SUBMISSION_H
#define SLURM_SUBMISSION_H

#include "slurm/frame.h"
#include "slurm/listing.h"

/* Limit of pilots pending in Slurm's queue. */
#define SUBMISSION_MAX_PENDING 8

struct submission;

struct submission_settings {
	unsigned max_nodes;           /* pilots at a time, pending ones included; 0: 1 */
	unsigned max_pending;         /* 0: SUBMISSION_MAX_PENDING */
	char prefix[FRAME_NAME_ROOM]; /* of job names, unique for this queue and epoch: a name is "<prefix>-<number>" */
	unsigned gpus;                /* per pilot, as requested; 0: unknown until the first pilot connects */
	uint64_t idle_ns;             /* 0: 30 s; a pilot without a job for this long is released */
	unsigned give_up;             /* 0: never */
};

/* The current demand of the queue. */
struct submission_demand {
	size_t waiting_jobs;           /* ready jobs that fit an empty pilot of this kind but not the current pilots */
	size_t waiting_gpus;           /* total GPUs needed by these jobs; jobs without a GPU count as 0 */
	size_t fitting_jobs_per_pilot; /* how many of them one pilot runs at a time; 0: derived from gpus and
					  waiting_gpus */
	size_t pilots; /* how many pilots are needed for all of them; 0: derived from the other fields */
};

enum submission_step_kind {
	SUBMISSION_NONE = 0, /* nothing now; call again at `wake_ns` (0: after the next event) */
	SUBMISSION_SUBMIT,   /* sbatch with the job name `name`; answer with submission_submitted() */
	SUBMISSION_LIST, /* a listing is needed to know whether an sbatch succeeded; answer with submission_listed() */
	SUBMISSION_RELEASE, /* release the pilot `name` (COORDINATOR_RELEASE_PILOT): it is idle */
	SUBMISSION_CANCEL,  /* scancel `slurm_job`: it is pending and no longer needed, or the coordinator exits */
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
 * The answer to SUBMISSION_SUBMIT. result 0: `slurm_job` is its id. Refused, nothing was submitted, and `words` is the
 * reason: -ENOTSUP permanently (a wrong option); -EINVAL permanently if it happens three times in a row; -EAGAIN for
 * now (a limit on the number of jobs). Other: uncertain. Returns 0 or -ENOMEM.
 */
int submission_submitted(
	struct submission *s, uint64_t now_ns, const char *name, int result, uint64_t slurm_job, const char *words);
/* Handles a listing; begun_ns: when its first command was started. Pass every listing of the coordinator. */
int submission_listed(struct submission *s, uint64_t now_ns, uint64_t begun_ns, const struct slurm_listing *listing);
/* A pilot that is pending in Slurm's queue and that no kind knows: an earlier coordinator, which was killed, has
 * submitted it. Returns 0 or -ENOMEM. */
int submission_adopt(struct submission *s, uint64_t now_ns, const struct listed_job *job);
/* COORDINATOR_READY for the first time: the pilot of this Slurm job has connected, with this number of GPUs. */
int submission_joined(struct submission *s, uint64_t now_ns, uint64_t slurm_job, const char *pilot, size_t num_gpus);
/* Sets the current number of attempts of the pilot. */
void submission_set_busy(struct submission *s, uint64_t now_ns, const char *pilot, size_t num_attempts);
/* COORDINATOR_GONE. preempted: Slurm ended it, not the pilot itself. words: the reason, for messages; or NULL. */
void submission_gone(struct submission *s, uint64_t now_ns, const char *pilot, bool preempted, const char *words);
/* While true, nothing is submitted, pending pilots are cancelled and idle ones released. Set to false when there is
 * work again. */
void submission_set_leaving(struct submission *s, bool leaving);
/* Changes the number of pilots allowed for this kind: kinds share a common limit. */
void submission_set_max_nodes(struct submission *s, unsigned max_nodes);

/* Whether the job was submitted here. */
bool submission_has_job(const struct submission *s, uint64_t slurm_job);
/* Nothing more is submitted, even if jobs wait; submission_words() gives the reason. */
bool submission_has_given_up(const struct submission *s);
/* Slurm has refused the options permanently, and has never accepted a pilot of this kind. *ret_words: its reason. */
bool submission_is_refused(const struct submission *s, const char **ret_words);
/* The Slurm job of the last pilot that failed before it connected, to find its output; 0: none. */
uint64_t submission_failed_job(const struct submission *s);
/* Number of pilots that are submitted or running. */
size_t submission_count(const struct submission *s);

/* Number of pilots that are submitted and have not connected, and number of running pilots. */
size_t submission_num_pending(const struct submission *s);
size_t submission_num_running(const struct submission *s);
/*
 * Why no pilot is being submitted although jobs wait, or what the pending ones wait for; "" if neither applies. Returns
 * `words`: "4 pilots pending in Slurm: Resources", "the last pilot ran no job (…); next try in 40 s".
 */
const char *submission_words(const struct submission *s, uint64_t now_ns, char words[FRAME_WORDS_ROOM]);

#endif
