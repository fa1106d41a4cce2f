/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "queue/journal/environment.h"
#include "queue/journal/record.h"
#include "queue/schedule/need.h"

extern char **environ;

/* ---- Who waits for what -------------------------------------------------------------- */

/* The first job that this one waits for and that is not over; *ret_failed: one that will not be completed. */
static struct job *unfinished(struct runner *r, const struct job *job, uint64_t *ret_failed, const char **ret_how)
{
	struct job *open = NULL;
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		struct job *dep = jobs_find(&r->jobs, job->after[i]);
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

void runner_enqueue(struct runner *r, struct job *job)
{
	uint64_t failed = 0;
	const char *how = NULL;
	struct placement_need need;
	struct job *dep = unfinished(r, job, &failed, &how);
	if (failed) {
		char words[96];
		snprintf(words, sizeof(words), "job %llu, which it waits for, %s", (unsigned long long)failed, how);
		record_write_fail(&r->to_append, job->id, words);
		return;
	}
	if (dep) {
		job->next_dependent = dep->dependents;
		job->dependent_link = &dep->dependents;
		if (job->next_dependent)
			job->next_dependent->dependent_link = &job->next_dependent;
		dep->dependents = job;
		job->blocked = true;
		r->num_blocked++;
		return;
	}
	job_need(job, r->options.min_free_mem_mb, r->gpus, &need);
	job->wait = (struct pending_job){.order = job->id, .priority = job->priority};
	if (pending_add(r->pending, &job->wait, &need) < 0)
		r->fatal = -ENOMEM;
	r->must_place = true;
}

void runner_dequeue(struct runner *r, struct job *job)
{
	if (job->wait.position)
		pending_remove(r->pending, &job->wait);
	if (!job->blocked)
		return;
	job->blocked = false;
	r->num_blocked--;
	*job->dependent_link = job->next_dependent;
	if (job->next_dependent)
		job->next_dependent->dependent_link = job->dependent_link;
}

/* ---- Placing ---------------------------------------------------------------------------- */

static void note_quarantines(struct runner *r)
{
	for (size_t g = 0; g < r->gpus->count; g++)
		r->notes[g].quarantined = false;
	for (const struct running *run = r->running; run; run = run->next)
		for (size_t i = 0; run->stuck && !run->ended && i < run->num_gpus; i++) {
			r->notes[run->gpus[i]].quarantined = true;
			r->notes[run->gpus[i]].why = run->stuck_words;
		}
}

/* Without `but`, if there is one. */
static int build_ledger(struct runner *r, const struct running *but)
{
	size_t n = 0;
	for (struct running *run = r->running; run; run = run->next)
		n++;
	cleanup_(freep) struct ledger_job *jobs = calloc(n + r->others.count + 1, sizeof(*jobs));
	cleanup_(freep) struct claim_entry *entries = calloc(r->others.count + 1, sizeof(*entries));
	if (!jobs || !entries)
		return -ENOMEM;
	note_quarantines(r);
	n = 0;
	for (struct running *run = r->running; run; run = run->next)
		if (!run->foreign && run != but)
			jobs[n++] = (struct ledger_job){.id = run->id,
				.ended = run->ended,
				.declared = run->declared,
				.settled = run->watch.settled,
				.promised_bytes = run->promised_bytes,
				.gpus = run->gpus,
				.num_gpus = run->num_gpus,
				.pids = run->user.pids,
				.num_pids = run->user.num_pids};
	n += claim_entries(&r->others, r->gpus, entries, jobs + n);
	struct ledger_input in = {.gpus = r->gpus->gpus,
		.notes = r->notes,
		.num_gpus = r->gpus->count,
		.jobs = jobs,
		.num_jobs = n,
		.jobs_per_gpu = (unsigned)r->options.jobs_per_gpu,
		.foreign_pids = runner_foreign_pids(r)};
	return ledger_build(&r->ledger, &in);
}

/*
 * Announces, and looks again: of two queues that announce at once at least one sees
 * the other, and backs off. True if there is still room.
 */
static bool claim_room(struct runner *r, struct running *run, const struct placement_need *need)
{
	if (!r->claims || run->num_gpus == 0)
		return true;
	running_claim(run);
	runner_claims_read(r);
	cleanup_(freep) struct placement_verdict *verdicts = calloc(r->gpus->count + 1, sizeof(*verdicts));
	cleanup_(freep) int *gpus = calloc(need->num_gpus + 1, sizeof(*gpus));
	if (!verdicts || !gpus || build_ledger(r, run) < 0)
		return false;
	bool room = placement_choose(&r->ledger, run->id, need, NULL, gpus, verdicts) == 0;
	for (size_t i = 0; room && i < run->num_gpus; i++)
		room = verdicts[run->gpus[i]].reason == PLACEMENT_FITS;
	if (room) {
		r->back_offs = 0;
		return true;
	}
	r->pause_until_ns = clock_now_ns() + claims_backoff_ms(r->back_offs++) * NS_PER_MS;
	loop_set_deadline(r->tick, r->pause_until_ns + NS_PER_MS);
	return false;
}

static void append_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

int runner_surroundings(struct runner *r, struct gd_error *err)
{
	if (r->own_cwd)
		return 0;
	const char *slash = strrchr(r->journal->path, '/');
	int e = environment_save(r->journal->dir_fd, environ, r->own_env, err);
	if (e == 0)
		r->own_cwd =
			strndup(r->journal->path, slash == r->journal->path ? 1 : (size_t)(slash - r->journal->path));
	return e < 0 ? e : r->own_cwd ? 0 : -ENOMEM;
}

static int write_payload(struct runner *r, const struct job *job, const struct running *run, struct keeper_order *o,
	struct text *t, struct gd_error *err)
{
	struct gd_gpu gpus[256];
	for (size_t i = 0; i < run->num_gpus; i++)
		gpus[i] = r->gpus->gpus[run->gpus[i]];
	cleanup_(freep) struct gd_env_change *changes = NULL;
	int e = gd_gpu_bind(gpus, run->num_gpus, &changes, err);
	if (e < 0)
		return e;
	append_string(t, job->command);
	if (!job->wish->env && (e = runner_surroundings(r, err)) < 0)
		return e;
	append_string(t, job->wish->cwd ? job->wish->cwd : r->own_cwd);
	append_string(t, job->wish->env ? job->wish->env : r->own_env);
	append_string(t, job->wish->log_dir ? job->wish->log_dir : r->options.log_dir);
	append_string(t, job->wish->on_finish ? job->wish->on_finish : r->options.on_finish);
	append_string(t, job->name);
	if ((e = running_claim_text(run, t)) < 0)
		return e;
	append_string(t, ""); /* the claim's end */
	append_string(t, ""); /* a hook has its input from the keeper */
	for (; changes[o->num_env].name; o->num_env++) {
		const struct gd_env_change *c = &changes[o->num_env];
		text_append_string(t, c->name);
		if (c->value) {
			text_append_char(t, '=');
			text_append_string(t, c->value);
		}
		text_append(t, "", 1);
	}
	o->num_gpus = (uint32_t)run->num_gpus;
	for (size_t i = 0; i < run->num_gpus; i++) {
		int32_t index = gpus[i].index;
		text_append(t, &index, sizeof(index));
	}
	o->size = t->length;
	return text_error(t);
}

/* False: nothing more can be started now. */
static bool hand_out(struct runner *r, struct job *job, const int *gpus, const struct placement_need *need)
{
	struct runner_keeper *k = runner_keeper_get(r);
	struct running *run = k ? running_add(r, job->id) : NULL;
	if (!run)
		return false;
	run->gpus = calloc(need->num_gpus + 1, sizeof(int));
	cleanup_(text_finish) struct text payload = {0};
	struct keeper_order o = {.kind = KEEPER_ORDER_RUN,
		.id = job->id,
		.attempt = job->num_attempts + 1,
		.fence = r->fence,
		.timeout_ms = job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : r->options.timeout_ms,
		.grace_ms = r->options.grace_ms,
		.retries = job->wish->has_retries ? 0 : r->options.retries};
	struct gd_error err = {0};
	int e = run->gpus ? 0 : -ENOMEM;
	if (e == 0) {
		memcpy(run->gpus, gpus, need->num_gpus * sizeof(int));
		run->num_gpus = need->num_gpus;
		run->cpu_only = need->num_gpus == 0;
		run->promised_bytes = need->memory_bytes;
		run->declared = need->declared;
		e = write_payload(r, job, run, &o, &payload, &err);
	}
	if (e < 0)
		runner_pause(r, TROUBLE_START, e);
	if (e < 0 || !claim_room(r, run, need)) {
		running_remove(run);
		return false;
	}
	pending_remove(r->pending, &job->wait);
	job->running = run;
	run->keeper = k;
	k->running = run;
	running_count(run, 1);
	if (run->num_gpus)
		ledger_add(&r->ledger, &(struct ledger_job){.id = run->id,
					       .declared = run->declared,
					       .promised_bytes = run->promised_bytes,
					       .gpus = run->gpus,
					       .num_gpus = run->num_gpus});
	/* Where the keeper is gone, its socket says so. */
	(void)runner_keeper_send(k, &o, payload.data);
	return true;
}

static struct job *job_of(struct pending_job *p)
{
	return (struct job *)(void *)((char *)p - offsetof(struct job, wait));
}

static void place_all(struct runner *r)
{
	int gpus[256];
	struct pending_job *p;
	r->waits_for_gpu = false;
	pending_rewind(r->pending);
	placement_rewind(&r->reservation);
	while ((p = pending_peek(r->pending))) {
		struct job *job = job_of(p);
		struct placement_need need = *pending_need(r->pending, p);
		if (need.num_gpus > sizeof(gpus) / sizeof(gpus[0])) {
			pending_skip(r->pending, 0);
			continue;
		}
		int e = need.num_gpus == 0 && r->num_cpu_jobs >= (size_t)r->max_cpu_jobs
				? -EAGAIN
				: placement_choose(&r->ledger, job->id, &need, &r->reservation, gpus, NULL);
		if (e == 0) {
			if (!hand_out(r, job, gpus, &need))
				return;
			continue;
		}
		if (e == -EAGAIN)
			r->waits_for_gpu = true;
		if (e == -EAGAIN && need.num_gpus > 0 && !r->reservation.active &&
			placement_reserve(&r->reservation, &r->ledger, job->id, &need) < 0)
			r->fatal = -ENOMEM;
		pending_skip(r->pending,
			e == -EAGAIN ? placement_beyond(&r->ledger, &need, &r->reservation) : need.memory_bytes);
	}
}

void runner_place(struct runner *r)
{
	r->must_place = false;
	bool full = r->options.max_failures && r->failures >= (uint64_t)r->options.max_failures;
	/* What could not be started is gone, and is not on its way either: nobody would notice that it can be. */
	if (pending_count(r->pending) == 0 && r->num_running == 0)
		r->troubles &= ~(1u << TROUBLE_START | 1u << TROUBLE_KEEPER);
	if (r->interrupts || r->leaving || r->blocked || full || pending_count(r->pending) == 0)
		return;
	if (r->pause_until_ns)
		return; /* the tick comes back to it */
	if (r->fence_stale && runner_resync(r, false) < 0)
		return;
	runner_claims_read(r);
	if (build_ledger(r, NULL) < 0) {
		r->fatal = -ENOMEM;
		return;
	}
	place_all(r);
}
