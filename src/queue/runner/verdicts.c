/* SPDX-License-Identifier: MIT */
#include "queue/runner/verdicts_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "gpu/list.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/claim_proof_file.h"

/* Limit for a journal that other users may have written: each pending job is compared with all pairs of GPUs. This many
 * comparisons take about a second. */
#define MOST_FOREIGN_PAIRS 100000000
/* The same for different needs, with which each pending job is compared. */
#define MOST_FOREIGN_NEEDS 30000000

/* Clears the members of struct job that a scheduler uses. */
static void clear_jobs(struct jobs *js)
{
	for (size_t i = 0; i < js->count; i++) {
		struct job *job = js->by_id[i];
		job->wait = (struct pending_job){0};
		job->blocked = job->sleeping = job->late = false;
		job->dependents = job->next_dependent = NULL;
		job->dependent_link = NULL;
	}
}

/* ---- Positions ------------------------------------------------------------------------ */

static int compare_jobs(const void *a, const void *b)
{
	const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int order_jobs(struct verdicts *v)
{
	const struct jobs *js = &v->follow->jobs;
	size_t n = 0;
	bool sorted = true;
	v->order = calloc(js->counts[JOB_PENDING] + 1, sizeof(*v->order));
	if (!v->order)
		return -ENOMEM;
	for (size_t i = 0; i < js->count && n < js->counts[JOB_PENDING]; i++) {
		if (js->by_id[i]->state != JOB_PENDING)
			continue;
		sorted = sorted && (n == 0 || v->order[n - 1]->priority >= js->by_id[i]->priority);
		v->order[n++] = js->by_id[i];
	}
	if (!sorted)
		qsort(v->order, n, sizeof(*v->order), compare_jobs);
	v->num_pending = n;
	return 0;
}

size_t verdicts_position(struct verdicts *v, const struct job *job)
{
	if (job->state != JOB_PENDING || v->num_pending == 0)
		return 0;
	/* Most lists are in the order of the queue. */
	if (v->next < v->num_pending && v->order[v->next] == job)
		return ++v->next;
	struct job *const *at = bsearch(&job, v->order, v->num_pending, sizeof(*v->order), compare_jobs);
	if (at)
		v->next = (size_t)(at - v->order) + 1;
	return at ? v->next : 0;
}

/* ---- The scheduler -------------------------------------------------------------------- */

static int add_running(struct scheduler *s, const struct job *job, const char *host)
{
	int positions[SCHEDULER_MAX_GPUS];
	size_t count, n = job->attempts ? job->attempts->num_gpus : 0;
	const struct gd_gpu *const *gpus = scheduler_gpus(s, &count);
	bool here = !job->keeper || !*job->keeper->machine.host || strcmp(job->keeper->machine.host, host) == 0;
	if (!here || scheduler_has(s, job->id))
		return 0;
	for (size_t i = 0; i < n; i++) {
		positions[i] = -1;
		for (size_t g = 0; g < count; g++)
			if (gpus[g]->index == job->attempts->gpus[i])
				positions[i] = (int)g;
	}
	int r = scheduler_adopt(s, job, positions, n);
	if (r == 0 && job->stuck)
		scheduler_set_stuck(s, job->id);
	return r;
}

int verdicts_add_jobs(struct scheduler *s, struct jobs *js, const char *host)
{
	char words[SCHEDULER_WORDS];
	int r = 0;
	scheduler_end_finished(s);
	for (size_t i = 0; r == 0 && js->counts[JOB_RUNNING] && i < js->count; i++)
		if (js->by_id[i]->state == JOB_RUNNING)
			r = add_running(s, js->by_id[i], host);
	for (size_t i = 0; r >= 0 && js->counts[JOB_PENDING] && i < js->count; i++)
		if (js->by_id[i]->state == JOB_PENDING && !scheduler_has(s, js->by_id[i]->id))
			r = scheduler_add(s, js->by_id[i], words);
	return r < 0 ? r : 0;
}

/* The runner does not consider these leases either: their `gpuq exec` is gone, or on another machine. */
static void remove_leases(struct verdicts *v)
{
	struct jobs *js = &v->follow->jobs;
	for (size_t i = 0; js->counts[JOB_PENDING] && i < js->count; i++) {
		struct job *job = js->by_id[i];
		if (job->lease && job->state == JOB_PENDING &&
			((*job->keeper->machine.host && strcmp(job->keeper->machine.host, v->here.host) != 0) ||
				follow_lease_is_left(v->follow, job)))
			scheduler_remove(v->scheduler, job);
	}
}

static int decide(struct verdicts *v)
{
	struct scheduler_start start;
	(void)scheduler_set_time(v->scheduler, date_now_ms());
	int r = verdicts_add_jobs(v->scheduler, &v->follow->jobs, v->here.host);
	if (r == 0)
		remove_leases(v);
	while (r == 0 && (r = scheduler_decide(v->scheduler, UINT64_MAX, &start)) == 1)
		r = 0;
	return r;
}

/* ---- Without a runner ----------------------------------------------------------------- */

/* Best effort: if claims cannot be read, the promises of other queues are not counted. */
static int read_claims(struct verdicts *v, const struct gd_gpu_list *gpus)
{
	struct claims *c;
	struct claims_list list = {0};
	struct claim_proofs proofs = {0};
	char queue_name[HASH_TEXT];
	hash_format(hash_bytes(v->follow->path, strlen(v->follow->path)), queue_name);
	if (gpus->count == 0 || gpus->gpus[0]->vendor == GD_VENDOR_SIMULATED || claims_open(NULL, &c, NULL) < 0)
		return 0;
	claims_list(c, queue_name, &list);
	uint64_t now_ns = clock_wall_ns();
	(void)claim_proofs_load(&proofs, now_ns, v->here.host, c);
	(void)claim_proofs_update(&proofs, now_ns, &list, gpus, gpu_users_foreign_pids(&v->here));
	cleanup_(freep) struct ledger_job *jobs = calloc(list.count + 1, sizeof(*jobs));
	cleanup_(freep) struct claim_entry *entries = calloc(list.count + 1, sizeof(*entries));
	int r = jobs && entries
			? scheduler_set_claims(v->scheduler, jobs, claim_entries(&list, gpus, &proofs, entries, jobs))
			: -ENOMEM;
	claims_list_finish(&list);
	claim_proofs_finish(&proofs);
	claims_close(c);
	return r;
}

/* Attributes the processes on the GPUs to jobs that run without a runner. */
static int attribute(struct verdicts *v, const struct gd_gpu_list *gpus)
{
	const struct jobs *js = &v->follow->jobs;
	int r = 0;
	size_t most = js->counts[JOB_RUNNING], n = 0;
	cleanup_(freep) struct gpu_user *users = calloc(most + 1, sizeof(*users));
	cleanup_(freep) struct gpu_user **pointers = calloc(most + 1, sizeof(*pointers));
	cleanup_(freep) uint64_t *ids = calloc(most + 1, sizeof(*ids));
	if (!users || !pointers || !ids)
		return -ENOMEM;
	for (size_t i = 0; n < most && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING || !job->keeper || strcmp(job->keeper->machine.host, v->here.host) != 0)
			continue;
		users[n].root = job->keeper->pid;
		pointers[n] = &users[n];
		ids[n++] = job->id;
	}
	gpu_users_find(gpus, pointers, n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = scheduler_set_pids(v->scheduler, ids[i], users[i].pids, users[i].num_pids);
	return r;
}

/* Uses the settings with which this shell would run the queue. */
static int look(
	struct verdicts *v, const struct runner_rules *rules, const struct gd_gpu_list *gpus, struct gd_error *err)
{
	struct gd_gpu_list *own = NULL;
	int r = gpus ? 0 : gpu_list_of_machine(rules->gpus, NULL, &own, err);
	if (r < 0)
		return r;
	gpus = gpus ? gpus : own;
	struct host_limits host;
	host_read(NULL, NULL, &host);
	struct scheduler_settings settings = {
		.rules = {.min_free_mem_mb = rules->min_free_mem_mb, .jobs_per_gpu = rules->jobs_per_gpu},
		.cpus = host.cpus,
		.host_bytes = host.memory_known ? host.memory_total_bytes : 0,
		.foreign_pids = gpu_users_foreign_pids(&v->here)};
	scheduler_configure(v->scheduler, &settings);
	r = scheduler_sample(v->scheduler, clock_now_ns(), gpus->gpus, gpus->count);
	if (r == 0)
		r = read_claims(v, gpus);
	for (size_t i = 0; r == 0 && v->follow->jobs.counts[JOB_RUNNING] && i < v->follow->jobs.count; i++)
		if (v->follow->jobs.by_id[i]->state == JOB_RUNNING)
			r = add_running(v->scheduler, v->follow->jobs.by_id[i], v->here.host);
	scheduler_correct_baselines(v->scheduler);
	if (r == 0)
		r = attribute(v, gpus);
	gd_gpu_list_free(own);
	return r < 0 ? error_set(err, r, "cannot query the GPUs: %s", error_words(r)) : 0;
}

/* ---- With a runner -------------------------------------------------------------------- */

static enum verdicts_source load(struct verdicts *v, pid_t runner)
{
	struct runner_rules rules;
	int r = runner_rules_read(v->follow->dir_fd, &rules);
	bool elsewhere = r == 0 && strcmp(rules.host, v->here.host) != 0;
	if (r == 0)
		runner_rules_finish(&rules);
	if (elsewhere)
		return SOURCE_ELSEWHERE;
	r = published_read(v->follow->dir_fd, &v->published, v->scheduler);
	/* The PID of a runner in another PID namespace is not known. */
	if (r < 0 || (runner > 0 && v->published.pid != runner) || strcmp(v->published.host, v->here.host) != 0)
		return SOURCE_BEGINNING;
	return SOURCE_RUNNER;
}

static enum verdicts_source load_last(struct verdicts *v)
{
	bool is_there = v->num_pending > 0 && v->follow->dir_fd >= 0 &&
			published_read(v->follow->dir_fd, &v->published, v->scheduler) == 0 &&
			strcmp(v->published.host, v->here.host) == 0;
	v->published.pause[0] = '\0';
	scheduler_forget_end(v->scheduler);
	return is_there ? SOURCE_LAST : SOURCE_NONE;
}

static bool has_scheduler(const struct verdicts *v)
{
	return v->source == SOURCE_RUNNER || v->source == SOURCE_SELF || v->source == SOURCE_LAST;
}

static bool is_too_costly(const struct verdicts *v)
{
	size_t gpus, needs = v->follow->jobs.num_wishes;
	(void)scheduler_gpus(v->scheduler, &gpus);
	if (!v->follow->reader.limits.foreign)
		return false;
	return (gpus > 0 && v->num_pending > MOST_FOREIGN_PAIRS / gpus / gpus) ||
	       (needs > 0 && v->num_pending > MOST_FOREIGN_NEEDS / needs);
}

int verdicts_open(struct follow *f, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	enum verdicts_mode mode, struct verdicts **ret, struct gd_error *err)
{
	struct verdicts *v = calloc(1, sizeof(*v));
	pid_t runner = follow_runner(f);
	int r = v ? scheduler_create(&f->jobs, &v->scheduler) : -ENOMEM;
	if (r == 0) {
		v->follow = f;
		machine_get(&v->here);
		clear_jobs(&f->jobs);
		r = order_jobs(v);
	}
	if (r < 0)
		error_set(err, r, "cannot read the queue: %s", error_words(r));
	if (r == 0 && f->reader.limits.foreign && f->jobs.counts[JOB_RUNNING] > JOURNAL_MAX_FOREIGN_RUNNING)
		v->source = SOURCE_NONE;
	else if (r == 0 && runner != 0)
		v->source = load(v, runner);
	else if (r == 0 && follow_runner_is_hidden(f))
		v->source = SOURCE_HIDDEN;
	else if (r == 0 && v->num_pending > 0 && f->dir_fd >= 0 && published_is_cluster(f->dir_fd))
		v->source = SOURCE_CLUSTER;
	else if (r == 0 && mode == VERDICTS_LOOK && v->num_pending > 0) {
		v->source = SOURCE_SELF;
		r = look(v, rules, gpus, err);
	} else if (r == 0)
		v->source = load_last(v);
	if (r == 0 && has_scheduler(v) && is_too_costly(v))
		v->source = SOURCE_NONE;
	if (r == 0 && has_scheduler(v)) {
		r = decide(v);
		if (r < 0)
			error_set(err, r, "cannot read the queue: %s", error_words(r));
	}
	if (r < 0) {
		verdicts_close(v);
		return r;
	}
	*ret = v;
	return 0;
}

void verdicts_close(struct verdicts *v)
{
	if (!v)
		return;
	scheduler_destroy(v->scheduler);
	if (v->follow)
		clear_jobs(&v->follow->jobs);
	for (size_t i = 0; i < v->num_briefs; i++)
		free(v->briefs[i]);
	free(v->briefs);
	forecast_destroy(v->forecast);
	free(v->order);
	free(v);
}

/* ---- Verdicts -------------------------------------------------------------------------- */

int verdicts_get(struct verdicts *v, const struct job *job, struct scheduler_verdict *ret)
{
	*ret = (struct scheduler_verdict){.answer = SCHEDULER_UNKNOWN};
	if (job->state != JOB_PENDING || !has_scheduler(v))
		return 0;
	int r = scheduler_verdict(v->scheduler, job, ret);
	/* The next runner will find other GPUs free. */
	if (r == 0 && v->source == SOURCE_LAST && ret->answer != SCHEDULER_NEVER)
		*ret = (struct scheduler_verdict){.answer = SCHEDULER_UNKNOWN};
	return r;
}

const struct gd_gpu *const *verdicts_gpus(const struct verdicts *v, size_t *ret_count)
{
	*ret_count = 0;
	return v->scheduler ? scheduler_gpus(v->scheduler, ret_count) : NULL;
}
