/* SPDX-License-Identifier: MIT */
#include "queue/runner/verdicts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/lock.h"
#include "base/units.h"
#include "gpu/list.h"
#include "queue/journal/job_line.h"
#include "queue/runner/forecast.h"
#include "queue/runner/published.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/claim_proof_file.h"
#include "queue/schedule/process_owner.h"

/* Where the verdicts come from. */
enum verdicts_source {
	SOURCE_RUNNER,    /* what it published */
	SOURCE_BEGINNING, /* a runner that has published nothing yet */
	SOURCE_ELSEWHERE, /* a runner on another machine */
	SOURCE_SELF,      /* no runner: the GPUs as this process sees them */
	SOURCE_LAST,      /* no runner: what the last one published, for jobs that it could never start */
	SOURCE_NONE,      /* no runner, and the GPUs were not asked */
};

/* Words are remembered for so many classes of needs. */
#define MOST_BRIEFS 4096

struct verdicts {
	struct follow *follow;
	enum verdicts_source source;
	struct machine here;
	struct published published;
	struct scheduler *scheduler;
	/* The words for jobs that need the same, by their class in the index of waiting jobs. */
	char **briefs;
	size_t num_briefs;
	struct forecast *forecast; /* made when it is first asked for */
	struct job **order;        /* the pending jobs in their order; NULL: that of their ids */
	size_t num_pending;
	size_t next; /* in `order`, after the last job that was asked for */
};

/* The members of struct job that a scheduler uses. */
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

/* Those that the runner does not consider, either: their `gpuq exec` is gone, or on another machine. */
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

/* Whose the processes on the GPUs are, for jobs that run without a runner. */
static int attribute(struct verdicts *v, const struct gd_gpu_list *gpus)
{
	const struct jobs *js = &v->follow->jobs;
	int r = 0;
	for (size_t i = 0; r == 0 && js->counts[JOB_RUNNING] && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING || !job->keeper || strcmp(job->keeper->machine.host, v->here.host) != 0)
			continue;
		struct gpu_user user = {.root = job->keeper->pid};
		gpu_users_find(gpus, &(struct gpu_user *){&user}, 1);
		r = scheduler_set_pids(v->scheduler, job->id, user.pids, user.num_pids);
	}
	return r;
}

/* As this shell would run it. */
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
	if (r == 0)
		r = attribute(v, gpus);
	gd_gpu_list_free(own);
	return r < 0 ? error_set(err, r, "looking at the GPUs: %s", error_words(r)) : 0;
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
	/* In another PID namespace its number is not known. */
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
		error_set(err, r, "looking at the queue: %s", error_words(r));
	if (r == 0 && runner != 0)
		v->source = load(v, runner);
	else if (r == 0 && mode == VERDICTS_LOOK && v->num_pending > 0) {
		v->source = SOURCE_SELF;
		r = look(v, rules, gpus, err);
	} else if (r == 0)
		v->source = load_last(v);
	if (r == 0 && has_scheduler(v)) {
		r = decide(v);
		if (r < 0)
			error_set(err, r, "looking at the queue: %s", error_words(r));
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

/* ---- Words ---------------------------------------------------------------------------- */

int verdicts_get(struct verdicts *v, const struct job *job, struct scheduler_verdict *ret)
{
	*ret = (struct scheduler_verdict){.answer = SCHEDULER_UNKNOWN};
	if (job->state != JOB_PENDING || !has_scheduler(v))
		return 0;
	int r = scheduler_verdict(v->scheduler, job, ret);
	/* The next runner finds other GPUs free. */
	if (r == 0 && v->source == SOURCE_LAST && ret->answer != SCHEDULER_NEVER)
		*ret = (struct scheduler_verdict){.answer = SCHEDULER_UNKNOWN};
	return r;
}

/* How long CPUs and main memory stay in use is not estimated. */
static bool needs_machine(const struct job *job)
{
	return job->wish->num_gpus == 0 || job->wish->cpus > 0 || job->wish->host_mem_mb > 0;
}

/* The first jobs in the order that can start as soon as there is room. */
static int make_forecast(struct verdicts *v)
{
	const struct job *waiting[EXPECTED_START_MAX];
	struct scheduler_verdict verdict;
	size_t n = 0, num_gpus;
	for (size_t i = 0; i < v->num_pending && n < EXPECTED_START_MAX; i++) {
		int r = verdicts_get(v, v->order[i], &verdict);
		if (r < 0)
			return r;
		if (verdict.answer == SCHEDULER_WAITS || verdict.answer == SCHEDULER_STARTS)
			waiting[n++] = v->order[i];
	}
	(void)scheduler_gpus(v->scheduler, &num_gpus);
	return forecast_create(&v->follow->jobs, waiting, n, (unsigned)num_gpus, date_now_ms(), &v->forecast);
}

int verdicts_expected(struct verdicts *v, const struct job *job, struct expected_start *ret)
{
	*ret = (struct expected_start){0};
	if (job->state != JOB_PENDING || v->source != SOURCE_RUNNER || v->published.pause[0])
		return 0;
	int r = v->forecast ? 0 : make_forecast(v);
	if (r == 0 && !needs_machine(job))
		*ret = forecast_get(v->forecast, job);
	return r;
}

static int say_expected(struct verdicts *v, const struct job *job, struct text *t)
{
	struct expected_start e;
	char low[UNITS_ROOM], median[UNITS_ROOM], high[UNITS_ROOM];
	int r = verdicts_expected(v, job, &e);
	if (r < 0)
		return r;
	if (e.known)
		text_appendf(t, "expected to start in %s%s (%s to %s)\n", e.at_most ? "at most " : "about ",
			units_format_duration((uint64_t)e.median_ms, median),
			units_format_duration((uint64_t)e.low_ms, low),
			units_format_duration((uint64_t)e.high_ms, high));
	else if (needs_machine(job))
		text_append_string(t, "expected start: not estimated for jobs that need CPUs or main memory\n");
	else
		text_append_string(t, "expected start: no data of similar jobs\n");
	return 0;
}

/* The first of its dependencies that is not completed, or not over where that is enough; NULL: none. */
static const struct job *waits_for(const struct jobs *js, const struct job *job)
{
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		const struct job *dep = jobs_find(js, job->after[i]);
		bool any = i > job->after[0] - job->num_after_any;
		if (dep && (any ? !job_is_final(dep) : dep->state != JOB_COMPLETED))
			return dep;
	}
	return NULL;
}

/* All waiting jobs of a class get the same words, except one for which GPUs are kept. */
static bool has_class(const struct verdicts *v, const struct job *job)
{
	const struct placement_reservation *r = scheduler_reservation(v->scheduler);
	return job->wait.position && !scheduler_is_late(v->scheduler, job) && r->job != job->id &&
	       r->host_job != job->id && job->wait.class_number < MOST_BRIEFS;
}

static void remember_brief(struct verdicts *v, const struct job *job, const char *words)
{
	size_t number = job->wait.class_number;
	if (!v->briefs)
		v->briefs = calloc(MOST_BRIEFS, sizeof(*v->briefs));
	if (!v->briefs)
		return;
	v->num_briefs = MOST_BRIEFS;
	if (!v->briefs[number])
		v->briefs[number] = strdup(words);
}

static int brief(struct verdicts *v, const struct job *job, struct text *t)
{
	struct scheduler_verdict verdict;
	bool has = has_class(v, job);
	if (has && v->briefs && v->briefs[job->wait.class_number]) {
		text_append_string(t, v->briefs[job->wait.class_number]);
		return 0;
	}
	int r = verdicts_get(v, job, &verdict);
	if (r < 0)
		return r;
	size_t before = t->length;
	scheduler_verdict_brief(t, v->scheduler, &verdict);
	if (has && !text_error(t))
		remember_brief(v, job, text_string(t) + before);
	return 0;
}

static int brief_of_last(struct verdicts *v, const struct job *job, struct text *t)
{
	size_t before = t->length;
	int r = brief(v, job, t);
	if (t->length == before)
		text_append_string(t, "no runner is active");
	return r;
}

int verdicts_obstacle(struct verdicts *v, const struct job *job, struct text *t, const struct job **ret_job)
{
	struct scheduler_verdict verdict;
	const struct job *dep;
	/* Jobs wait only for jobs that were added before them. */
	while (job->state == JOB_PENDING && (dep = waits_for(&v->follow->jobs, job)) && dep->id < job->id)
		job = dep;
	*ret_job = job;
	if (job->state == JOB_HELD) {
		text_appendf(t, "is held; 'gpuq release %" PRIu64 "' lets it go on", job->id);
		return 0;
	}
	/* The next runner may have other GPUs: only for a job that the last one has seen this is certain enough. */
	if (v->source == SOURCE_LAST && job->submit_ms > v->published.written_ms)
		return 0;
	int r = verdicts_get(v, job, &verdict);
	if (r == 0 && verdict.answer == SCHEDULER_NEVER)
		scheduler_verdict_brief(t, v->scheduler, &verdict);
	return r;
}

const struct gd_gpu *const *verdicts_gpus(const struct verdicts *v, size_t *ret_count)
{
	*ret_count = 0;
	return v->scheduler ? scheduler_gpus(v->scheduler, ret_count) : NULL;
}

int verdicts_brief(struct verdicts *v, const struct job *job, struct text *t)
{
	if (job->state != JOB_PENDING)
		return 0;
	const struct job *dep = waits_for(&v->follow->jobs, job);
	if (dep) {
		text_appendf(t, "after job %" PRIu64, dep->id);
		return 0;
	}
	if (v->follow->jobs.paused)
		text_append_string(t, "the queue is paused");
	else if (v->source == SOURCE_NONE)
		text_append_string(t, "no runner is active");
	else if (v->source == SOURCE_LAST)
		return brief_of_last(v, job, t);
	else if (v->source == SOURCE_ELSEWHERE)
		text_append_string(t, "its runner is on another machine");
	else if (v->source == SOURCE_BEGINNING)
		text_append_string(t, "its runner is starting");
	else if (v->published.pause[0])
		text_append_string(t, "the runner starts nothing new");
	else
		return brief(v, job, t);
	return 0;
}

static void say_source(const struct verdicts *v, const struct scheduler_verdict *verdict, struct text *t)
{
	switch (v->source) {
	case SOURCE_RUNNER:
		if (v->published.pause[0])
			text_appendf(t, "%s\n", v->published.pause);
		break;
	case SOURCE_BEGINNING:
		text_append_string(t, "its runner is starting; ask again\n");
		break;
	case SOURCE_ELSEWHERE:
		text_append_string(t, "its runner is on another machine; ask there how its GPUs are\n");
		break;
	case SOURCE_SELF:
	case SOURCE_LAST:
	case SOURCE_NONE:
		if (v->follow->jobs.paused)
			text_append_string(t, "the queue is paused; 'gpuq resume' lets it go on\n");
		/* One that could not start the job would not help. */
		text_appendf(t, "no runner is active%s\n",
			verdict->answer == SCHEDULER_NEVER ? "" : "; start one with 'gpuq run'");
		break;
	}
}

int verdicts_explain(struct verdicts *v, const struct job *job, struct text *t, struct gd_error *err)
{
	struct scheduler_verdict verdict;
	text_appendf(t, "job %" PRIu64 ": ", job->id);
	job_line_write_outcome(t, job);
	text_append_char(t, '\n');
	if (job->state == JOB_HELD)
		text_appendf(t, "it is held; 'gpuq release %" PRIu64 "' lets it go on\n", job->id);
	if (job->state == JOB_UNKNOWN)
		text_appendf(t,
			"a record of it was lost; it may have run: 'gpuq retry %" PRIu64
			"' runs it again, 'gpuq cancel %" PRIu64 "' gives it up\n",
			job->id, job->id);
	if (job->state != JOB_PENDING)
		return 0;
	text_appendf(t, "position %zu of %zu\n", verdicts_position(v, job), v->num_pending);
	const struct job *dep = waits_for(&v->follow->jobs, job);
	int r = verdicts_get(v, dep ? dep : job, &verdict);
	if (r < 0)
		return error_set(err, r, "looking at the queue: %s", error_words(r));
	say_source(v, &verdict, t);
	if (dep) {
		text_appendf(t, "waits for job %" PRIu64 ", which is %s", dep->id,
			job_state_name((enum job_state)dep->state));
		if (verdict.answer == SCHEDULER_NEVER) {
			text_append_string(t, " and ");
			scheduler_verdict_brief(t, v->scheduler, &verdict);
		}
		text_append_char(t, '\n');
		return 0;
	}
	scheduler_verdict_lines(t, v->scheduler, &verdict, process_owner_describe, NULL);
	if (verdict.answer == SCHEDULER_WAITS && v->source == SOURCE_RUNNER)
		r = say_expected(v, job, t);
	return r < 0 ? error_set(err, r, "looking at the queue: %s", error_words(r)) : 0;
}

/* ---- A job that was just added --------------------------------------------------------- */

static void say_help(
	struct text *t, const struct scheduler_verdict *v, const struct scheduler_settings *has, size_t num_gpus)
{
	bool memory = has->host_bytes && v->need.host_bytes > has->host_bytes, cpus = v->need.cpus > has->cpus;
	size_t pinned = 0;
	for (size_t g = 0; g < v->num_gpus; g++)
		pinned += v->gpus[g].reason != PLACEMENT_PINNED;
	if (num_gpus == 0)
		text_append_string(
			t, "; it waits for a runner that has one, or for simulated ones: gpuq run --gpus sim:4");
	else if (v->host == PLACEMENT_HOST_TOO_SMALL)
		text_appendf(t, "; add it again with %s%s%s", memory ? "less --host-mem" : "",
			memory && cpus ? " and " : "", cpus ? "fewer --cpus" : "");
	else if (v->need.pin)
		text_appendf(t, "; add it again with %s", pinned < v->need.num_gpus ? "another --gpu" : "less --mem");
	else if (v->need.num_gpus > num_gpus)
		text_append_string(t, "; add it again with fewer --num-gpus");
	else
		text_append_string(t, "; add it again with less --mem, or run the queue where GPUs are larger");
}

int verdicts_warn(int dir_fd, const struct job_spec *spec, bool started, struct text *t)
{
	struct jobs none;
	struct published p;
	struct scheduler *s = NULL;
	struct placement_need need;
	struct scheduler_verdict v;
	struct job_wish wish = {.mem_mb = spec->mem_mb,
		.min_free_mem_mb = spec->min_free_mem_mb,
		.num_gpus = spec->num_gpus,
		.host_mem_mb = spec->host_mem_mb,
		.cpus = spec->cpus,
		.gpu = spec->gpu,
		.exclusive = spec->exclusive};
	pid_t runner = 0;
	jobs_init(&none);
	if (lock_holder_at(dir_fd, "runner.lock", &runner) < 0 || (runner == 0 && !started))
		return 0;
	int r = scheduler_create(&none, &s);
	if (r == 0)
		r = published_read(dir_fd, &p, s);
	if (r == 0 && (runner <= 0 || p.pid == runner)) {
		size_t count;
		const struct gd_gpu *const *gpus = scheduler_gpus(s, &count);
		wish_need(&wish, 0, &scheduler_settings(s)->rules, gpus, count, &need);
		r = scheduler_judge(s, &need, &v);
		if (r == 0 && v.answer == SCHEDULER_NEVER) {
			scheduler_verdict_brief(t, s, &v);
			say_help(t, &v, scheduler_settings(s), count);
		}
	}
	scheduler_destroy(s);
	jobs_finish(&none);
	return r == -ENOMEM ? r : 0;
}
