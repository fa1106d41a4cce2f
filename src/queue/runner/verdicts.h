/* SPDX-License-Identifier: MIT */
/*
 * Why the pending jobs of a queue wait, for those who look on.
 *
 * With an active runner on this machine the verdicts come from the inputs that it published and from the journal,
 * through the same scheduler. Without one they say so, and which jobs the last runner could never have started;
 * verdicts_open() with VERDICTS_LOOK then asks the GPUs itself.
 * Verdicts hold for the journal as it was read; open them again after follow_update().
 */
#ifndef QUEUE_RUNNER_VERDICTS_H
#define QUEUE_RUNNER_VERDICTS_H

#include "base/text.h"
#include "queue/journal/follow.h"
#include "queue/runner/runner_rules.h"
#include "queue/schedule/expected_start.h"
#include "queue/schedule/scheduler.h"

struct verdicts;

enum verdicts_mode {
	VERDICTS_QUICK, /* without a runner no GPU is asked: drivers take their time */
	VERDICTS_LOOK,
};

/*
 * `rules` are the caller's own, used without a runner; `gpus` then are the GPUs as they are now (NULL: they are read
 * here). `f` must outlive the verdicts and not be updated meanwhile.
 */
int verdicts_open(struct follow *f, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	enum verdicts_mode mode, struct verdicts **ret, struct gd_error *err);
void verdicts_close(struct verdicts *v); /* NULL is fine */

/*
 * Adds the jobs of a journal to a scheduler that has the inputs of its runner. The journal may have been read later
 * than the inputs were written. host: of this machine.
 */
int verdicts_add_jobs(struct scheduler *s, struct jobs *jobs, const char *host);

/*
 * For `gpuq add`: appends why a job with these wishes can never start on the GPUs of the active runner, and
 * what would help; nothing if it can, or if that is not known. Reads the published inputs alone, not the journal.
 * started: the caller has just started the runner, which leaves again if it has nothing that it could start.
 */
int verdicts_warn(int dir_fd, const struct job_spec *spec, bool started, struct text *t);

/* The answer of `gpuq why`: lines, each with its newline. */
int verdicts_explain(struct verdicts *v, const struct job *job, struct text *t, struct gd_error *err);
/* A few words for a table; nothing for a job that is not pending. */
int verdicts_brief(struct verdicts *v, const struct job *job, struct text *t);
/*
 * What must be done before a job can start: "is held; …" or "cannot start: …", of *ret_job, which is the job itself or
 * one that it waits for. Nothing if there is no such thing.
 */
int verdicts_obstacle(struct verdicts *v, const struct job *job, struct text *t, const struct job **ret_job);
/* The place of a pending job among all that are pending, from 1; 0: it is not pending. */
size_t verdicts_position(struct verdicts *v, const struct job *job);
/* When it is expected to start; known is false where there is no data, or nothing is known of the GPUs. */
int verdicts_expected(struct verdicts *v, const struct job *job, struct expected_start *ret);
/* The GPUs that verdicts are about, in the order of scheduler_verdict.gpus. */
const struct gd_gpu *const *verdicts_gpus(const struct verdicts *v, size_t *ret_count);
/* The scheduler's own verdict; answer is SCHEDULER_UNKNOWN where nothing is known. */
int verdicts_get(struct verdicts *v, const struct job *job, struct scheduler_verdict *ret);

#endif
