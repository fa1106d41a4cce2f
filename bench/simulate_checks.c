/* SPDX-License-Identifier: MIT */
/* The invariants, checked against the state of the world, without the scheduler's own ledger. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "queue/runner/published.h"
#include "queue/runner/verdicts.h"
#include "simulate.h"

#define ID(job) ((unsigned long long)(job)->id)

static int64_t threshold_mb(const struct world *w, const struct world_job *j)
{
	return j->spec.min_free_mem_mb >= 0 ? j->spec.min_free_mem_mb : w->settings.rules.min_free_mem_mb;
}

bool world_alone(const struct world *w, const struct world_job *j)
{
	if (j->spec.num_gpus == 0)
		return false;
	return j->spec.exclusive ||
	       (j->spec.mem_mb < 0 && threshold_mb(w, j) < 0 && w->settings.rules.jobs_per_gpu < 2);
}

uint64_t world_promise(const struct world *w, const struct world_job *j, size_t gpu)
{
	uint64_t total = w->gpus[gpu].memory_total_bytes, most = total - total / 10;
	if (j->spec.mem_mb >= 0)
		return (uint64_t)j->spec.mem_mb * UNITS_MB;
	if (threshold_mb(w, j) >= 0)
		return (uint64_t)threshold_mb(w, j) * UNITS_MB;
	return 6000 * UNITS_MB < most ? 6000 * UNITS_MB : most;
}

static bool is_on(const struct world_job *j, size_t gpu)
{
	for (size_t i = 0; i < j->num_gpus; i++)
		if ((size_t)j->gpus[i] == gpu)
			return true;
	return false;
}

/* ---- One GPU for one job -------------------------------------------------------------- */

/* As of the last sample: memory promised to or used by our jobs, used by others, and promised to others. */
static void check_memory(const struct world *w, const struct world_job *j, size_t gpu)
{
	const struct gd_gpu *g = &w->gpus[gpu];
	bool seen = g->known & GD_GPU_KNOWN_PROCESSES;
	uint64_t taken = seen ? w->sampled_foreign[gpu] : 0;
	for (size_t i = 1; i <= w->num_jobs; i++) {
		const struct world_job *o = &w->jobs[i];
		if (o == j || !o->live || !is_on(o, gpu))
			continue;
		uint64_t promised = world_promise(w, o, gpu), has = seen ? o->seen_bytes[gpu] : 0;
		taken += promised > has ? promised : has;
	}
	for (size_t i = 0; i < w->num_claims; i++)
		if ((size_t)w->claim_gpus[i][0] == gpu)
			taken += w->claims[i].promised_bytes < g->memory_total_bytes ? w->claims[i].promised_bytes
										     : g->memory_total_bytes;
	if (world_promise(w, j, gpu) > 0 && taken + world_promise(w, j, gpu) > g->memory_total_bytes)
		world_fail(w, "memory: job %llu gets %llu MB of GPU %zu, which has %llu MB; %llu MB are taken", ID(j),
			(unsigned long long)(world_promise(w, j, gpu) / UNITS_MB), gpu,
			(unsigned long long)(g->memory_total_bytes / UNITS_MB), (unsigned long long)(taken / UNITS_MB));
}

static void check_neighbors(const struct world *w, const struct world_job *j, size_t gpu)
{
	int count = 0;
	for (size_t i = 1; i <= w->num_jobs; i++) {
		const struct world_job *o = &w->jobs[i];
		if (o == j || !o->live || !is_on(o, gpu))
			continue;
		count++;
		if (world_alone(w, j) || world_alone(w, o))
			world_fail(w, "exclusivity: jobs %llu and %llu share GPU %zu", ID(j), ID(o), gpu);
		if (o->stuck)
			world_fail(w, "job %llu is put next to job %llu, which cannot be killed", ID(j), ID(o));
		if (j->spec.mem_mb < 0 && o->spec.mem_mb < 0 && !scheduler_is_settled(w->scheduler, o->id))
			world_fail(w, "settling: job %llu is put next to job %llu, whose memory grows", ID(j), ID(o));
	}
	if (w->settings.rules.jobs_per_gpu && count >= w->settings.rules.jobs_per_gpu)
		world_fail(w, "jobs_per_gpu: GPU %zu has too many jobs with job %llu", gpu, ID(j));
	for (size_t i = 0; i < w->num_claims; i++)
		if ((size_t)w->claim_gpus[i][0] == gpu && w->claims[i].alone)
			world_fail(w, "exclusivity: job %llu gets GPU %zu in spite of an exclusive claim", ID(j), gpu);
}

/* ---- The machine ---------------------------------------------------------------------- */

static void check_host(struct world *w)
{
	uint64_t bytes = 0;
	unsigned cpus = 0;
	for (size_t i = 1; i <= w->num_jobs; i++) {
		const struct world_job *j = &w->jobs[i];
		if (!j->live)
			continue;
		bytes += (uint64_t)j->spec.host_mem_mb * UNITS_MB;
		cpus += j->spec.cpus ? (unsigned)j->spec.cpus : j->spec.num_gpus == 0;
	}
	if (bytes > w->settings.host_bytes || cpus > w->settings.cpus)
		world_fail(w, "the machine: %llu MB and %u CPUs are promised", (unsigned long long)(bytes / UNITS_MB),
			cpus);
}

/* ---- Order ---------------------------------------------------------------------------- */

static bool goes_first(const struct job *a, const struct job *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
}

/* Whether a job with the same needs, or less memory, is waiting and comes first. */
static bool is_like(const struct world *w, const struct world_job *a, const struct world_job *b)
{
	if (a->spec.num_gpus != b->spec.num_gpus || a->spec.cpus != b->spec.cpus ||
		a->spec.host_mem_mb != b->spec.host_mem_mb || strcmp(a->gpu, b->gpu) != 0)
		return false;
	if (world_alone(w, a) != world_alone(w, b) || (a->spec.mem_mb < 0) != (b->spec.mem_mb < 0))
		return false;
	return a->spec.mem_mb >= 0 ? a->spec.mem_mb <= b->spec.mem_mb : threshold_mb(w, a) == threshold_mb(w, b);
}

static void check_order(struct world *w, const struct job *started)
{
	for (size_t i = 0; i < w->fold.count; i++) {
		const struct job *job = w->fold.by_id[i];
		if (!job->wait.position || !goes_first(job, started))
			continue;
		if (is_like(w, world_find(w, job->id), world_find(w, started->id)))
			world_fail(w, "order: job %llu starts before job %llu, which comes first and needs no more",
				ID(started), ID(job));
	}
}

static void check_dependencies(struct world *w, const struct job *job)
{
	const struct world_job *j = world_find(w, job->id);
	if (job->state != JOB_PENDING)
		world_fail(w, "job %llu starts and is %s", ID(job), job_state_name((enum job_state)job->state));
	for (size_t i = 0; i < j->spec.num_after; i++) {
		const struct job *dep = jobs_find(&w->fold, j->after[i]);
		if (dep->state != JOB_COMPLETED)
			world_fail(w, "dependencies: job %llu starts before job %llu is completed", ID(job), ID(dep));
	}
}

/* The first job that does not fit is not overtaken on the GPUs that are reserved for it. */
static void check_reservation(struct world *w, const struct scheduler_start *start)
{
	const struct placement_reservation *r = scheduler_reservation(w->scheduler);
	for (size_t i = 0; r->active && r->job != start->job->id && i < r->num_gpus; i++)
		for (size_t k = 0; k < start->num_gpus; k++)
			if (r->gpus[i] == start->gpus[k])
				world_fail(w, "reservation: job %llu gets GPU %d, which is kept for job %llu",
					ID(start->job), start->gpus[k], (unsigned long long)r->job);
}

/* Whether the job could certainly have this GPU if all jobs of the queue there ended. */
static bool is_drainable(const struct world *w, const struct world_job *j, size_t gpu)
{
	size_t count;
	const struct gd_gpu *g = scheduler_gpus(w->scheduler, &count)[gpu]; /* as it was sampled */
	if (g->health != GD_GPU_HEALTH_OK || !(g->known & GD_GPU_KNOWN_PROCESSES) || w->sampled_foreign[gpu] > 0)
		return false;
	if ((j->spec.gpu && j->gpu[0] - '0' != (int)gpu) || world_promise(w, j, gpu) > g->memory_total_bytes)
		return false;
	for (size_t i = 0; i < w->num_claims; i++)
		if ((size_t)w->claim_gpus[i][0] == gpu)
			return false;
	for (size_t i = 1; i <= w->num_jobs; i++)
		if (w->jobs[i].live && w->jobs[i].stuck && is_on(&w->jobs[i], gpu))
			return false;
	return true;
}

/* No job starves: when a job that only waits for jobs of the queue is overtaken, GPUs are reserved for it. */
static void check_first(struct world *w, const struct scheduler_start *start)
{
	const struct placement_reservation *r = scheduler_reservation(w->scheduler);
	const struct job *first = NULL;
	for (size_t i = 0; i < w->fold.count; i++) {
		const struct job *job = w->fold.by_id[i];
		if (job->wait.position && world_find(w, job->id)->spec.num_gpus != 0 &&
			(!first || goes_first(job, first)))
			first = job;
	}
	if (!first || start->num_gpus == 0 || !goes_first(first, start->job))
		return;
	const struct world_job *f = world_find(w, first->id);
	size_t want = f->spec.num_gpus < 0 ? 1 : (size_t)f->spec.num_gpus, nvidia = 0;
	if ((unsigned)f->spec.cpus > w->settings.cpus ||
		(uint64_t)f->spec.host_mem_mb * UNITS_MB > w->settings.host_bytes)
		return;
	for (size_t g = 0; g < w->num_gpus; g++)
		nvidia += w->gpus[g].vendor == GD_VENDOR_NVIDIA && is_drainable(w, f, g);
	if (nvidia >= want && !(r->active && r->job == first->id))
		world_fail(w, "starvation: job %llu overtakes job %llu, for which no GPU is kept", ID(start->job),
			ID(first));
}

/* ---- Time ----------------------------------------------------------------------------- */

static int compare_ms(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* The job's longest expected duration: the 90th percentile of its kind's last runs, or its timeout; 0: unknown. */
static int64_t longest_ms(const struct world *w, const struct world_job *j)
{
	int64_t runs[WORLD_RUNS], ms;
	int64_t timeout_ms = j->spec.timeout_ms >= 0 ? j->spec.timeout_ms : w->settings.timeout_ms;
	size_t n = w->num_runs[j->kind] < WORLD_RUNS ? w->num_runs[j->kind] : WORLD_RUNS;
	if (n == 0)
		return timeout_ms;
	memcpy(runs, w->run_ms[j->kind], n * sizeof(*runs));
	qsort(runs, n, sizeof(*runs), compare_ms);
	size_t at = 9 * (n - 1) / 10, rest = 9 * (n - 1) % 10;
	ms = n == 1 ? 2 * runs[0] : runs[at] + (rest ? (runs[at + 1] - runs[at]) * (int64_t)rest / 10 : 0);
	return timeout_ms > 0 && timeout_ms < ms ? timeout_ms : ms;
}

/* How late the job would end, in milliseconds; negative: in time. */
static int64_t lateness_ms(const struct world *w, const struct world_job *j)
{
	int64_t ms = longest_ms(w, j);
	return w->settings.end_ms && ms > 0 ? w->now_ms + ms - w->settings.end_ms : INT64_MIN;
}

static void check_time(const struct world *w, const struct world_job *j)
{
	if (j->spec.begin_ms > w->now_ms)
		world_fail(
			w, "job %llu starts %lld ms before its time", ID(j), (long long)(j->spec.begin_ms - w->now_ms));
	/* Interpolated durations are rounded. */
	if (lateness_ms(w, j) > 2)
		world_fail(w, "job %llu starts and would end %lld ms after the allocation", ID(j),
			(long long)lateness_ms(w, j));
	if (j->spec.keeper && (j->parked || j->attempts > 0))
		world_fail(w, "lease %llu starts %s", ID(j), j->parked ? "and cannot be reached" : "twice");
}

/* A waiting job is reported as late exactly if it is, and waits for its begin time only until then. */
static void check_waiting(struct world *w, const struct world_job *j)
{
	const struct job *job = jobs_find(&w->fold, j->id);
	struct scheduler_verdict v;
	int64_t late_ms = lateness_ms(w, j);
	if (job->state != JOB_PENDING || j->parked)
		return;
	if (scheduler_verdict(w->scheduler, job, &v) < 0)
		world_fail(w, "out of memory");
	if (v.answer == SCHEDULER_BLOCKED)
		return;
	if ((v.answer == SCHEDULER_BEGINS) != (j->spec.begin_ms > w->now_ms))
		world_fail(w, "job %llu %s, and its time is %lld ms from now", ID(j),
			v.answer == SCHEDULER_BEGINS ? "waits for its time" : "does not wait for its time",
			(long long)(j->spec.begin_ms - w->now_ms));
	if (v.answer == SCHEDULER_LATE && late_ms < -2)
		world_fail(w, "job %llu is reported as too long for the allocation, but has %lld ms to spare", ID(j),
			(long long)-late_ms);
	if (v.answer == SCHEDULER_WAITS && late_ms > 2)
		world_fail(w, "job %llu waits, and would end %lld ms after the allocation", ID(j), (long long)late_ms);
	w->late += v.answer == SCHEDULER_LATE;
}

void check_start(struct world *w, const struct scheduler_start *start)
{
	const struct job *job = start->job;
	const struct world_job *j = world_find(w, job->id);
	size_t want = j->spec.num_gpus < 0 ? 1 : (size_t)j->spec.num_gpus;
	if (j->live || start->num_gpus != want)
		world_fail(w, "job %llu starts on %zu GPUs but requests %zu", ID(job), start->num_gpus, want);
	check_dependencies(w, job);
	check_time(w, j);
	check_order(w, job);
	check_reservation(w, start);
	check_first(w, start);
	/* A retried job, or one whose begin time has come, may come before the first: this is not overtaking. */
	if (w->first && goes_first(job, jobs_find(&w->fold, w->first)))
		w->first = 0;
	for (size_t i = 0; i < start->num_gpus; i++) {
		size_t g = (size_t)start->gpus[i];
		if (w->gpus[g].vendor != w->gpus[start->gpus[0]].vendor)
			world_fail(w, "job %llu gets GPUs of two vendors", ID(job));
		for (size_t k = 0; k < i; k++)
			if (start->gpus[k] == start->gpus[i])
				world_fail(w, "job %llu gets GPU %zu twice", ID(job), g);
		if (j->spec.gpu && j->gpu[0] - '0' != (int)g)
			world_fail(w, "job %llu is pinned to GPU %s and gets %zu", ID(job), j->gpu, g);
		check_memory(w, j, g);
		check_neighbors(w, j, g);
	}
}

/* ---- Between decisions ---------------------------------------------------------------- */

/*
 * Without other users, the first job in the order starts as soon as the jobs that ran when it became first have ended:
 * jobs that start later do not block it.
 */
static void check_patience(struct world *w)
{
	const struct job *first = NULL;
	struct scheduler_verdict v;
	for (size_t i = 0; w->calm && i < w->fold.count; i++) {
		const struct job *job = w->fold.by_id[i];
		if (!job->wait.position || (first && !goes_first(job, first)))
			continue;
		if (scheduler_verdict(w->scheduler, job, &v) < 0)
			world_fail(w, "out of memory");
		if (v.answer == SCHEDULER_WAITS)
			first = job;
	}
	if (!first || first->id != w->first) {
		w->first = first ? first->id : 0;
		w->first_by_ms = w->now_ms;
		for (size_t i = 1; i <= w->num_jobs; i++)
			if (w->jobs[i].live && w->jobs[i].end_ms > w->first_by_ms)
				w->first_by_ms = w->jobs[i].end_ms;
		return;
	}
	if (w->now_ms > w->first_by_ms)
		world_fail(w,
			"starvation: job %llu is first and waits, although all jobs that ran before have ended:\n%s",
			ID(first), world_explain(w, first->id));
}

void check_state(struct world *w)
{
	check_host(w);
	check_patience(w);
	for (size_t i = 1; i <= w->num_jobs; i++) {
		const struct world_job *j = &w->jobs[i];
		if (j->live != scheduler_has(w->scheduler, j->id))
			world_fail(w, "job %llu is %s, but the scheduler disagrees", ID(j),
				j->live ? "running" : "not running");
		for (size_t k = 0; j->live && world_alone(w, j) && k < j->num_gpus; k++)
			for (size_t o = 1; o <= w->num_jobs; o++)
				if (o != i && w->jobs[o].live && is_on(&w->jobs[o], (size_t)j->gpus[k]))
					world_fail(w, "exclusivity: job %zu is next to job %llu", o, ID(j));
		if (!w->plain && !j->live && (uint64_t)w->now_ms * NS_PER_MS >= scheduler_not_before(w->scheduler))
			check_waiting(w, j);
	}
}

/* ---- An observer ---------------------------------------------------------------------- */

/* Exactly the jobs that start are predicted as "starts". */
static void check_verdicts(struct world *w, struct scheduler *other, const struct predicted *p)
{
	for (size_t i = 0; i < w->other_fold.count; i++) {
		const struct job *job = w->other_fold.by_id[i];
		struct scheduler_verdict v;
		bool starts = false;
		if (job->state != JOB_PENDING)
			continue;
		if (scheduler_verdict(other, job, &v) < 0)
			world_fail(w, "out of memory");
		for (size_t k = 0; k < p->count; k++)
			starts = starts || p->starts[k].id == job->id;
		if (starts != (v.answer == SCHEDULER_STARTS))
			world_fail(w, "the verdict on job %llu is %d; it %s", ID(job), (int)v.answer,
				starts ? "starts" : "does not start");
		size_t fits = 0;
		for (size_t g = 0; v.answer == SCHEDULER_WAITS && g < v.num_gpus; g++)
			fits += v.gpus[g].reason == PLACEMENT_FITS;
		if (v.answer == SCHEDULER_WAITS && v.host == PLACEMENT_HOST_FITS && fits >= v.need.num_gpus &&
			(uint64_t)w->now_ms * NS_PER_MS >= scheduler_not_before(w->scheduler))
			world_fail(w, "the verdict on job %llu is that it fits, but it waits", ID(job));
	}
}

void check_predict(struct world *w, struct predicted *ret)
{
	struct text text = {0}, again = {0};
	struct published mine = {.pid = 1, .host = "here"}, read;
	struct scheduler *other;
	struct scheduler_start start;
	int r;
	ret->count = 0;
	published_format(&text, &mine, w->scheduler);
	if (text_error(&text) || scheduler_create(&w->other_fold, &other) < 0)
		world_fail(w, "out of memory");
	if (published_parse(text.data, text.length, &read, other) < 0)
		world_fail(w, "the published inputs cannot be read: %s", text_string(&text));
	published_format(&again, &mine, other);
	if (strcmp(text_string(&text), text_string(&again)) != 0)
		world_fail(w, "the published inputs change when they are read:\n%s\n%s", text_string(&text),
			text_string(&again));
	world_forget_scheduler(&w->other_fold);
	(void)scheduler_set_time(other, w->now_ms);
	if (verdicts_add_jobs(other, &w->other_fold, "here") < 0)
		world_fail(w, "out of memory");
	while ((r = scheduler_decide(other, (uint64_t)w->now_ms * NS_PER_MS, &start)) == 1) {
		size_t n = ret->count++;
		ret->starts[n].id = start.job->id;
		ret->starts[n].num_gpus = start.num_gpus;
		memcpy(ret->starts[n].gpus, start.gpus, start.num_gpus * sizeof(int));
	}
	if (r < 0)
		world_fail(w, "out of memory");
	check_verdicts(w, other, ret);
	scheduler_destroy(other);
	world_forget_scheduler(&w->other_fold);
	text_finish(&text);
	text_finish(&again);
}
