/* SPDX-License-Identifier: MIT */
#include "queue/schedule/scheduler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "queue/schedule/pending.h"
#include "queue/schedule/run_times.h"
#include "queue/schedule/scheduler_private.h"

int scheduler_create(const struct jobs *jobs, struct scheduler **ret)
{
	struct scheduler *s = calloc(1, sizeof(*s));
	int r = s ? pending_create(&s->pending) : -ENOMEM;
	if (r < 0) {
		free(s);
		return r;
	}
	s->jobs = jobs;
	s->settings.rules.min_free_mem_mb = -1;
	scheduler_touch(s);
	s->pass_stale = true;
	*ret = s;
	return 0;
}

void scheduler_destroy(struct scheduler *s)
{
	if (!s)
		return;
	(void)scheduler_set_claims(s, NULL, 0);
	scheduler_forget_holders(s);
	(void)scheduler_sample(s, 0, NULL, 0);
	pending_destroy(s->pending);
	scheduler_forget_begins(s);
	ledger_finish(&s->ledger);
	placement_reservation_finish(&s->reservation);
	free(s->entries);
	free(s->verdicts);
	free(s->nodes);
	free(s->gpu_nodes);
	run_times_destroy(s->times);
	free(s);
}

void scheduler_configure(struct scheduler *s, const struct scheduler_settings *settings)
{
	s->settings = *settings;
	scheduler_touch(s);
	s->pass_stale = true;
}

const struct scheduler_settings *scheduler_settings(const struct scheduler *s)
{
	return &s->settings;
}

const struct placement_reservation *scheduler_reservation(const struct scheduler *s)
{
	return &s->reservation;
}

const struct gd_gpu *const *scheduler_gpus(const struct scheduler *s, size_t *ret_count)
{
	*ret_count = s->num_gpus;
	return s->gpu_pointers;
}

bool scheduler_is_cluster(const struct scheduler *s)
{
	return s->cluster;
}

const struct ledger_node *scheduler_node_of(const struct scheduler *s, size_t position)
{
	int node = position < s->num_gpu_nodes ? s->gpu_nodes[position] : -1;
	return node >= 0 && (size_t)node < s->num_nodes ? &s->nodes[node] : NULL;
}

/* ---- Dependencies --------------------------------------------------------------------- */

struct job *scheduler_dependency(
	const struct jobs *jobs, const struct job *job, uint64_t *ret_failed, const char **ret_how)
{
	struct job *open = NULL;
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		struct job *dep = jobs_find(jobs, job->after[i]);
		/* It is unknown whether the job has ended: it may still be running. */
		if (!dep && number_set_has(&jobs->lost_ids, job->after[i])) {
			*ret_failed = job->after[i];
			*ret_how = "was lost from the journal; see 'gpuq verify'";
			return NULL;
		}
		if (i > job->after[0] - job->num_after_any) {
			if (dep && !job_is_final(dep) && !open)
				open = dep;
			continue;
		}
		if (!dep || dep->state == JOB_FAILED || dep->state == JOB_CANCELLED) {
			*ret_failed = job->after[i];
			*ret_how = !dep ? "does not exist" : dep->state == JOB_FAILED ? "failed" : "was cancelled";
			return NULL;
		}
		if (dep->state != JOB_COMPLETED && !open)
			open = dep;
	}
	return open;
}

/* Puts the job into a list: that of its dependency, or that of jobs whose dependencies have all completed. */
void scheduler_link(struct job **list, struct job *job)
{
	job->next_dependent = *list;
	job->dependent_link = list;
	if (job->next_dependent)
		job->next_dependent->dependent_link = &job->next_dependent;
	*list = job;
}

void scheduler_unlink(struct job *job)
{
	*job->dependent_link = job->next_dependent;
	if (job->next_dependent)
		job->next_dependent->dependent_link = job->dependent_link;
	job->dependent_link = NULL;
	job->next_dependent = NULL;
}

static void block(struct scheduler *s, struct job *job, struct job *dep)
{
	scheduler_link(&dep->dependents, job);
	job->blocked = true;
	s->num_blocked++;
}

static bool waits_for(const struct job *job, uint64_t id)
{
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++)
		if (job->after[i] == id)
			return true;
	return false;
}

void scheduler_reopen(struct scheduler *s, struct job *job)
{
	for (struct job *next, *ready = s->ready; ready; ready = next) {
		next = ready->next_dependent;
		if (!waits_for(ready, job->id))
			continue;
		scheduler_unlist(s, ready);
		block(s, ready, job);
	}
}

void scheduler_unlist(struct scheduler *s, struct job *job)
{
	pending_remove(s->pending, &job->wait);
	if (job->dependent_link)
		scheduler_unlink(job);
	s->pass_stale = true;
}

struct job *scheduler_release(struct scheduler *s, struct job *job)
{
	struct job *first = take_ptr(job->dependents);
	for (struct job *dependent = first; dependent; dependent = dependent->next_dependent) {
		dependent->blocked = false;
		dependent->dependent_link = NULL;
		s->num_blocked--;
	}
	return first;
}

/* ---- Waiting jobs --------------------------------------------------------------------- */

void scheduler_job_need(struct scheduler *s, const struct job *job, struct placement_need *ret)
{
	wish_need(job->wish, job->need_mb, &s->settings.rules, s->gpu_pointers, s->num_gpus, ret);
	ret->time_ms = scheduler_time_ms(s, job);
}

void scheduler_each_need(const struct scheduler *s,
	void (*tell)(void *context, const struct placement_need *need, size_t num_jobs), void *context)
{
	pending_each_need(s->pending, tell, context);
}

int scheduler_add(struct scheduler *s, struct job *job, char ret_words[SCHEDULER_WORDS])
{
	uint64_t failed = 0;
	const char *how = NULL;
	struct placement_need need;
	/* A job that is listed twice would be handed out twice. */
	if (job->wait.position || job->blocked || job->sleeping || job->late || scheduler_has(s, job->id))
		return 0;
	struct job *dep = scheduler_dependency(s->jobs, job, &failed, &how);
	if (failed) {
		snprintf(ret_words, SCHEDULER_WORDS, "job %" PRIu64 ", which it waits for, %s", failed, how);
		return 1;
	}
	if (dep) {
		block(s, job, dep);
		return 0;
	}
	if (job->wish->begin_ms > s->wall_ms)
		return scheduler_sleep(s, job);
	scheduler_job_need(s, job, &need);
	job->wait = (struct pending_job){.order = job->id, .priority = job->priority};
	s->pass_stale = true;
	int r = pending_add(s->pending, &job->wait, &need);
	if (r == 0 && job->after)
		scheduler_link(&s->ready, job);
	return r;
}

void scheduler_remove(struct scheduler *s, struct job *job)
{
	if (job->wait.position)
		scheduler_unlist(s, job);
	if (job->sleeping)
		scheduler_unsleep(s, job);
	if (job->late)
		scheduler_unset_aside(s, job);
	if (!job->blocked)
		return;
	job->blocked = false;
	s->num_blocked--;
	scheduler_unlink(job);
}

int scheduler_reset(struct scheduler *s)
{
	struct pending *fresh;
	int r = pending_create(&fresh);
	if (r < 0)
		return r;
	pending_destroy(s->pending);
	s->pending = fresh;
	s->num_blocked = 0;
	scheduler_forget_begins(s);
	s->late = NULL;
	s->num_late = 0;
	s->ready = NULL;
	s->pass_stale = true;
	for (struct holder *h = s->holders.first; h; h = h->next)
		h->job = NULL;
	return 0;
}

size_t scheduler_num_waiting(const struct scheduler *s)
{
	return pending_count(s->pending) + s->num_late;
}

size_t scheduler_num_blocked(const struct scheduler *s)
{
	return s->num_blocked;
}
