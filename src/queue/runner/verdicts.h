/* SPDX-License-Identifier: MIT */
/*
 * Why the pending jobs of a queue wait, for status commands.
 *
 * With an active runner on this machine the verdicts come from the inputs that it published and from the journal,
 * through the same scheduler. Without a runner they report this, and which jobs the last runner could never have
 * started; verdicts_open() with VERDICTS_LOOK then queries the GPUs itself. Verdicts are valid for the journal as it
 * was read; open them again after follow_update().
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
	VERDICTS_QUICK, /* without a runner no GPU is queried, because drivers can be slow */
	VERDICTS_LOOK,
};

/*
 * `rules` are the caller's own, used without a runner; `gpus` is then the current state of the GPUs
 * (NULL: query them). `f` must outlive the verdicts and must not be updated meanwhile.
 */
int verdicts_open(struct follow *f, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	enum verdicts_mode mode, struct verdicts **ret, struct gd_error *err);
void verdicts_close(struct verdicts *v); /* NULL is allowed */

/*
 * Adds the jobs of a journal to a scheduler that has the inputs of its runner. The journal may have
 * been read after the inputs were written. host: this machine's.
 */
int verdicts_add_jobs(struct scheduler *s, struct jobs *jobs, const char *host);

/*
 * For `gpuq add`: appends why jobs with this spec can never start on the GPUs of the active
 * runner, and what would help; nothing if they can, or if that is not known. Reads only the published
 * inputs, not the journal. num_jobs: how many the message is about. started: the caller has just
 * started the runner, which exits again if it has no job that it could start.
 */
int verdicts_warn(int dir_fd, const struct job_spec *spec, size_t num_jobs, bool started, struct text *t);

/* Why the active runner starts no jobs at all; NULL: it starts jobs, or that is not known. */
const char *verdicts_pause(const struct verdicts *v);
/* The answer of `gpuq why`: complete lines. */
int verdicts_explain(struct verdicts *v, const struct job *job, struct text *t, struct gd_error *err);
/* A few words for a table; nothing for a job that is not pending. */
int verdicts_brief(struct verdicts *v, const struct job *job, struct text *t);
/*
 * What must be done before a job can start: "is held; …" or "cannot start: …", about *ret_job, which
 * is the job itself or a job that it waits for. Appends nothing if there is no obstacle.
 */
int verdicts_obstacle(struct verdicts *v, const struct job *job, struct text *t, const struct job **ret_job);
/* The position of a pending job among all pending jobs, from 1; 0: it is not pending. */
size_t verdicts_position(struct verdicts *v, const struct job *job);
/* When it is expected to start; known is false without data, or if nothing is known about the GPUs. */
int verdicts_expected(struct verdicts *v, const struct job *job, struct expected_start *ret);
/* The GPUs of the verdicts, in the order of scheduler_verdict.gpus. */
const struct gd_gpu *const *verdicts_gpus(const struct verdicts *v, size_t *ret_count);
/* The scheduler's own verdict; answer is SCHEDULER_UNKNOWN if nothing is known. */
int verdicts_get(struct verdicts *v, const struct job *job, struct scheduler_verdict *ret);

#endif
