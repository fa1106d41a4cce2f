/* SPDX-License-Identifier: MIT */
#include "queue/runner/why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "gpu/list.h"
#include "queue/journal/job_line.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/claim_proof_file.h"
#include "queue/schedule/need.h"
#include "queue/schedule/pending.h"
#include "queue/schedule/process_owner.h"

/* Simulated GPUs, and those whose driver does not tell, show nothing of a job: see LEDGER_SETTLE_UNSEEN_NS. */
#define SETTLE_UNSEEN_MS ((int64_t)(LEDGER_SETTLE_UNSEEN_NS / NS_PER_MS))

/* The runner's state as far as it decides where a job goes, rebuilt from outside. */
struct runner_model {
	struct follow *follow;
	struct runner_rules rules;
	struct machine here;
	const struct gd_gpu_list *gpus;
	struct gd_gpu_list *own_gpus; /* read here; NULL: the caller passed them */
	struct claims_list claims;    /* of all queues, including this one */
	struct claim_proofs proofs;   /* as the runners of this user have recorded them */
	struct claim_entry *entries;
	char queue_name[HASH_TEXT];
	struct ledger ledger;
	struct ledger_note *notes;
	struct ledger_job *jobs;
	struct model_running {
		struct gpu_user user;
		int positions[256];
		char stuck_words[JOB_STUCK_ROOM];
	} * running; /* memory that `jobs` points into */
	struct pending *pending;
	struct placement_reservation reservation;
};

static void runner_model_finish(struct runner_model *m)
{
	gd_gpu_list_free(m->own_gpus);
	ledger_finish(&m->ledger);
	free(m->notes);
	free(m->jobs);
	free(m->running);
	free(m->entries);
	claims_list_finish(&m->claims);
	claim_proofs_finish(&m->proofs);
	pending_destroy(m->pending);
	placement_reservation_finish(&m->reservation);
}

static int find_gpu(const struct gd_gpu_list *gpus, int index)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->gpus[i]->index == index)
			return (int)i;
	return -1;
}

/* Best effort: if claims cannot be read, the promises of other queues are not counted. */
static int read_claims(struct runner_model *m)
{
	struct claims *c;
	int fd;
	hash_format(hash_bytes(m->follow->path, strlen(m->follow->path)), m->queue_name);
	bool simulated = m->gpus->count == 0 || m->gpus->gpus[0]->vendor == GD_VENDOR_SIMULATED;
	if (!simulated && claims_open(NULL, &c, NULL) == 0) {
		uint64_t now_ns = clock_now_ns();
		claims_list(c, "", &m->claims);
		if (claims_own_folder(c, false, &fd) == 0)
			(void)claim_proofs_load(&m->proofs, now_ns, m->here.boot, fd);
		(void)claim_proofs_update(&m->proofs, now_ns, &m->claims, m->gpus, gpu_users_foreign_pids(&m->here));
		claims_close(c);
	}
	m->entries = calloc(m->claims.count + 1, sizeof(*m->entries));
	return m->entries ? 0 : -ENOMEM;
}

static bool is_settled(const struct runner_model *m, const struct job *job)
{
	for (size_t i = 0; i < m->claims.count; i++) {
		const struct claim_info *c = &m->claims.claims[i].info;
		if (c->job == job->id && strcmp(c->queue, m->queue_name) == 0)
			return c->settled;
	}
	return date_now_ms() - job->attempts->start_ms >= SETTLE_UNSEEN_MS;
}

static struct ledger_job enter_running(struct runner_model *m, const struct job *job, struct model_running *at)
{
	struct placement_need need;
	job_need(job, m->rules.min_free_mem_mb, m->gpus, &need);
	for (size_t g = 0; g < job->attempts->num_gpus; g++)
		at->positions[g] = find_gpu(m->gpus, job->attempts->gpus[g]);
	bool here = job->keeper && strcmp(job->keeper->machine.host, m->here.host) == 0;
	at->user.root = here ? job->keeper->pid : 0;
	gpu_users_find(m->gpus, &(struct gpu_user *){&at->user}, 1);
	return (struct ledger_job){.id = job->id,
		.declared = need.declared,
		.settled = is_settled(m, job),
		.promised_bytes = need.memory_bytes,
		.gpus = at->positions,
		.num_gpus = job->attempts->num_gpus,
		.pids = at->user.pids,
		.num_pids = at->user.num_pids};
}

static void note_stuck(struct runner_model *m, const struct job *job, struct model_running *at)
{
	job_stuck_words(job->id, at->stuck_words);
	for (size_t g = 0; g < job->attempts->num_gpus; g++)
		if (at->positions[g] >= 0)
			m->notes[at->positions[g]] = (struct ledger_note){.quarantined = true, .why = at->stuck_words};
}

/* Claims of this queue are not counted beside its jobs. */
static void drop_own_claims(struct runner_model *m)
{
	size_t kept = 0;
	for (size_t i = 0; i < m->claims.count; i++)
		if (strcmp(m->claims.claims[i].info.queue, m->queue_name) != 0)
			m->claims.claims[kept++] = m->claims.claims[i];
	m->claims.count = kept;
}

static int build_ledger(struct runner_model *m)
{
	const struct jobs *js = &m->follow->jobs;
	size_t n = 0, running = js->counts[JOB_RUNNING];
	int r = read_claims(m);
	m->running = calloc(running + 1, sizeof(*m->running));
	m->jobs = calloc(running + m->claims.count + 1, sizeof(*m->jobs));
	m->notes = calloc(m->gpus->count + 1, sizeof(*m->notes));
	if (r < 0 || !m->running || !m->jobs || !m->notes)
		return -ENOMEM;
	for (size_t i = 0; i < js->count; i++)
		if (js->by_id[i]->state == JOB_RUNNING) {
			m->jobs[n] = enter_running(m, js->by_id[i], &m->running[n]);
			if (js->by_id[i]->stuck)
				note_stuck(m, js->by_id[i], &m->running[n]);
			n++;
		}
	drop_own_claims(m);
	n += claim_entries(&m->claims, m->gpus, &m->proofs, m->entries, m->jobs + n);
	return ledger_build(&m->ledger, &(struct ledger_input){.gpus = m->gpus->gpus,
						.notes = m->notes,
						.num_gpus = m->gpus->count,
						.jobs = m->jobs,
						.num_jobs = n,
						.jobs_per_gpu = (unsigned)m->rules.jobs_per_gpu,
						.foreign_pids = gpu_users_foreign_pids(&m->here)});
}

/* The first of its dependencies that is not completed; NULL: none. */
static const struct job *waits_for(const struct jobs *js, const struct job *job)
{
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		const struct job *dep = jobs_find(js, job->after[i]);
		if (dep && dep->state != JOB_COMPLETED)
			return dep;
	}
	return NULL;
}

static int add_pending(struct runner_model *m)
{
	const struct jobs *js = &m->follow->jobs;
	int r = pending_create(&m->pending);
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		struct job *job = js->by_id[i];
		struct placement_need need;
		if (job->state != JOB_PENDING || waits_for(js, job))
			continue;
		job_need(job, m->rules.min_free_mem_mb, m->gpus, &need);
		job->wait = (struct pending_job){.order = job->id, .priority = job->priority};
		r = pending_add(m->pending, &job->wait, &need);
	}
	return r;
}

/* Places the jobs that are before this one in the queue; *ret_before: how many of them start. */
static int place_earlier(struct runner_model *m, const struct job *job, size_t *ret_before)
{
	int gpus[256];
	struct pending_job *p;
	*ret_before = 0;
	pending_rewind(m->pending);
	placement_rewind(&m->reservation);
	while ((p = pending_peek(m->pending)) && p->order != job->id) {
		struct placement_need need = *pending_need(m->pending, p);
		uint64_t id = p->order;
		int r = need.num_gpus > 256 ? -ENODEV
					    : placement_choose(&m->ledger, id, &need, &m->reservation, gpus, NULL);
		if (r == 0) {
			ledger_add(&m->ledger, &(struct ledger_job){.id = id,
						       .declared = need.declared,
						       .promised_bytes = need.memory_bytes,
						       .gpus = gpus,
						       .num_gpus = need.num_gpus});
			pending_remove(m->pending, p);
			++*ret_before;
			continue;
		}
		bool waits = r == -EAGAIN && need.num_gpus > 0;
		if (waits && !m->reservation.active && placement_reserve(&m->reservation, &m->ledger, id, &need) < 0)
			return -ENOMEM;
		/* This may skip the job in question too: then it does not fit for the same reason. */
		pending_skip(
			m->pending, waits ? placement_beyond(&m->ledger, &need, &m->reservation) : need.memory_bytes);
	}
	return 0;
}

static int gpu_words(struct runner_model *m, const struct job *job, struct text *t)
{
	struct placement_need need;
	size_t before = 0;
	cleanup_(freep) struct placement_verdict *verdicts = calloc(m->gpus->count + 1, sizeof(*verdicts));
	int gpus[256];
	int r = verdicts ? add_pending(m) : -ENOMEM;
	if (r == 0)
		r = place_earlier(m, job, &before);
	if (r < 0)
		return r;
	job_need(job, m->rules.min_free_mem_mb, m->gpus, &need);
	if (need.num_gpus > 256 || need.num_gpus > m->gpus->count) {
		text_appendf(t, "it needs %u GPU%s, there %s %zu\n", need.num_gpus, need.num_gpus == 1 ? "" : "s",
			m->gpus->count == 1 ? "is" : "are", m->gpus->count);
		return 0;
	}
	r = placement_choose(&m->ledger, job->id, &need, &m->reservation, gpus, verdicts);
	if (before)
		text_appendf(t, "%zu job%s before it\n", before, before == 1 ? " starts" : "s start");
	if (r == 0)
		text_append_string(t, need.num_gpus ? "there is room for it now\n"
						    : "it needs no GPU, and waits for a free processor\n");
	for (size_t g = 0; r != 0 && g < m->gpus->count; g++) {
		placement_words(t, &m->ledger, g, &need, &verdicts[g], process_owner_describe, NULL);
		text_append_char(t, '\n');
	}
	return 0;
}

/* The GPUs of the runner, whatever the environment of this shell limits them to. */
static int list_gpus(struct runner_model *m, bool of_runner, struct gd_error *err)
{
	if (of_runner && strcmp(m->rules.gpus, RULES_NO_GPUS) == 0) {
		m->gpus = m->own_gpus = calloc(1, sizeof(*m->own_gpus));
		return m->gpus ? 0 : error_set(err, -ENOMEM, "looking at the GPUs: out of memory");
	}
	int r = gpu_list_of_machine(m->rules.gpus, of_runner ? m->rules.machine : NULL, &m->own_gpus, err);
	m->gpus = m->own_gpus;
	return r;
}

static int words_by_gpu(
	struct runner_model *m, const struct job *job, bool of_runner, struct text *t, struct gd_error *err)
{
	int r = m->gpus ? 0 : list_gpus(m, of_runner, err);
	if (r < 0)
		return r;
	if (m->gpus->count == 0)
		text_append_string(
			t, of_runner ? "its runner has no GPU\n" : "there is no GPU; simulated ones: --gpus sim:4\n");
	r = build_ledger(m);
	if (r == 0)
		r = gpu_words(m, job, t);
	return r < 0 ? error_set(err, r, "looking at the GPUs: %s", error_words(r)) : 0;
}

static int pending_words(struct follow *f, const struct job *job, const struct runner_rules *own,
	const struct gd_gpu_list *gpus, struct text *t, struct gd_error *err)
{
	cleanup_(runner_model_finish) struct runner_model m = {.follow = f, .gpus = gpus};
	cleanup_(runner_rules_finish) struct runner_rules rules = {0};
	const struct job *dep = waits_for(&f->jobs, job);
	bool has_runner = follow_runner(f) != 0;
	if (!has_runner)
		text_appendf(t, "nobody runs this queue; start a runner with 'gpuq run'%s\n",
			dep ? "" : "; as this shell would run it:");
	if (dep) {
		text_appendf(t, "it waits for job %" PRIu64 ", which is %s\n", dep->id,
			job_state_name((enum job_state)dep->state));
		return 0;
	}
	machine_get(&m.here);
	int r = has_runner ? runner_rules_read(f->dir_fd, &rules) : 0;
	if (r < 0) {
		text_append_string(t, r == -EAGAIN
					      ? "its runner is just beginning; ask again\n"
					      : "its runner does not say what it goes by; it may be an older gpuq\n");
		return 0;
	}
	if (has_runner && strcmp(rules.host, m.here.host) != 0) {
		text_appendf(t, "its runner is on %s; ask there how its GPUs are\n", rules.host);
		return 0;
	}
	m.rules = has_runner ? rules : *own;
	return words_by_gpu(&m, job, has_runner, t, err);
}

int why_write(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err)
{
	text_appendf(t, "job %" PRIu64 ": ", job->id);
	job_line_write_outcome(t, job);
	text_append_char(t, '\n');
	if (job->state == JOB_HELD)
		text_appendf(t, "it is held; 'gpuq release %" PRIu64 "' lets it go on\n", job->id);
	return job->state == JOB_PENDING ? pending_words(f, job, rules, gpus, t, err) : 0;
}
