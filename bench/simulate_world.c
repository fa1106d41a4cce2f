/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "queue/journal/record.h"
#include "simulate.h"

void world_fail(const struct world *w, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fprintf(stderr, "simulate: seed %llu, step %u: ", (unsigned long long)w->seed, w->step);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nreproduce with: simulate --seed %llu\n", (unsigned long long)w->seed);
	exit(1);
}

/* splitmix64 */
uint32_t world_random(struct world *w, uint32_t below)
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) % below);
}

bool world_chance(struct world *w, uint32_t percent)
{
	return world_random(w, 100) < percent;
}

/* ---- The machine ---------------------------------------------------------------------- */

static void make_gpu(struct world *w, size_t g)
{
	static const uint64_t sizes[] = {4, 8, 16, 24, 40, 80};
	struct gd_gpu *gpu = &w->gpus[g];
	*gpu = (struct gd_gpu){.size = sizeof(*gpu),
		.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_NUMA_NODE |
			 GD_GPU_KNOWN_LINKS,
		.vendor = !w->plain && world_chance(w, 10) ? GD_VENDOR_AMD : GD_VENDOR_NVIDIA,
		.index = (int)g,
		.vendor_index = (int)g,
		.mig_index = -1,
		.numa_node = (int)(g / 2),
		.links = UINT64_C(1) << (g ^ 1),
		.memory_total_bytes = (w->plain ? 24 : sizes[world_random(w, 6)]) * UNITS_GB};
	if (w->plain || world_chance(w, 75))
		gpu->known |= GD_GPU_KNOWN_PROCESSES;
	w->gpu_pointers[g] = gpu;
}

static uint64_t allocated(const struct world *w, const struct world_job *j)
{
	/* The first half of the memory at once, the rest after ten seconds. */
	return w->now_ms - j->start_ms < 10000 && !w->plain ? j->bytes / 2 : j->bytes;
}

static void sample_gpu(struct world *w, size_t g)
{
	struct gd_gpu *gpu = &w->gpus[g];
	uint64_t left = gpu->memory_total_bytes;
	size_t n = 0;
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		j->seen_bytes[g] = 0;
		for (size_t k = 0; j->live && k < j->num_gpus; k++)
			if ((size_t)j->gpus[k] == g) {
				uint64_t bytes = allocated(w, j) < left ? allocated(w, j) : left;
				j->seen_bytes[g] = bytes;
				left -= bytes;
				w->processes[g][n] = (struct gd_gpu_process){.size = sizeof(w->processes[g][n]),
					.pid = 1000 + (int64_t)j->id,
					.memory_known = 1,
					.memory_bytes = bytes};
				w->process_pointers[g][n] = &w->processes[g][n];
				n++;
			}
	}
	gpu->processes = w->process_pointers[g];
	gpu->num_processes = gpu->known & GD_GPU_KNOWN_PROCESSES ? n : 0;
	w->sampled_foreign[g] = w->foreign_bytes[g] < left ? w->foreign_bytes[g] : left;
	gpu->memory_free_bytes = left - w->sampled_foreign[g];
}

void world_sample(struct world *w)
{
	for (size_t g = 0; g < w->num_gpus; g++)
		sample_gpu(w, g);
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		int64_t pid = 1000 + (int64_t)j->id;
		if (j->live && scheduler_set_pids(w->scheduler, j->id, &pid, 1) < 0)
			world_fail(w, "out of memory");
	}
	if (scheduler_sample(w->scheduler, (uint64_t)w->now_ms * NS_PER_MS, w->gpu_pointers, w->num_gpus) < 0)
		world_fail(w, "out of memory");
}

/* ---- Beginning and end ---------------------------------------------------------------- */

void world_init(struct world *w, uint64_t seed, bool plain)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->random = seed;
	w->plain = plain;
	w->now_ms = 1000000;
	w->num_gpus = plain ? WORLD_GPUS : 1 + world_random(w, WORLD_GPUS);
	w->max_jobs = plain ? WORLD_JOBS : 10 + world_random(w, WORLD_JOBS - 10);
	static const int64_t min_free[] = {-1, -1, 2000, 8000};
	static const int per_gpu[] = {0, 0, 1, 2, 3};
	w->settings =
		(struct scheduler_settings){.rules = {.min_free_mem_mb = plain ? -1 : min_free[world_random(w, 4)],
						    .jobs_per_gpu = plain ? 0 : per_gpu[world_random(w, 5)]},
			.cpus = plain ? 64 : 2 + world_random(w, 15),
			.host_bytes = (plain ? 512 : 32 + world_random(w, 200)) * UNITS_GB};
	for (size_t g = 0; g < w->num_gpus; g++)
		make_gpu(w, g);
	jobs_init(&w->fold);
	jobs_init(&w->other_fold);
	if (!plain && world_chance(w, 30))
		w->settings.timeout_ms = 1000 * (int64_t)(20 + world_random(w, 300));
	if (!plain && world_chance(w, 40))
		w->settings.end_ms = world_next_end(w);
	world_start_runner(w);
	record_write_journal(&w->lines, "simulated", 1, 1);
	world_apply(w);
}

void world_finish(struct world *w)
{
	scheduler_destroy(w->scheduler);
	jobs_finish(&w->fold);
	jobs_finish(&w->other_fold);
	text_finish(&w->lines);
}

/* ---- Events --------------------------------------------------------------------------- */

static void change_claims(struct world *w)
{
	w->num_claims = world_random(w, WORLD_CLAIMS + 1);
	for (size_t i = 0; i < w->num_claims; i++) {
		w->claim_gpus[i][0] = (int)world_random(w, (uint32_t)w->num_gpus);
		w->claimants[i] = (struct ledger_claimant){.user = 1234, .job = i + 1, .queue = "other"};
		w->claims[i] = (struct ledger_job){.foreign = true,
			.claimant = &w->claimants[i],
			.declared = world_chance(w, 70),
			.settled = world_chance(w, 50),
			.alone = world_chance(w, 20),
			.promised_bytes = world_random(w, 30) * UNITS_GB,
			.gpus = w->claim_gpus[i],
			.num_gpus = 1};
	}
	if (scheduler_set_claims(w->scheduler, w->claims, w->num_claims) < 0)
		world_fail(w, "out of memory");
}

static void control_some_job(struct world *w)
{
	static const enum event events[] = {EVENT_HOLD, EVENT_RELEASE, EVENT_URGENT, EVENT_CANCEL, EVENT_RETRY};
	if (w->num_jobs == 0)
		return;
	uint64_t id = 1 + world_random(w, (uint32_t)w->num_jobs);
	const struct job *job = jobs_find(&w->fold, id);
	enum event event = events[world_random(w, 5)];
	bool waits = job->state == JOB_PENDING || job->state == JOB_HELD;
	if ((event == EVENT_RETRY) != job_is_final(job) || (event != EVENT_RETRY && !waits))
		return;
	record_write_control(&w->lines, event, id, NULL);
	world_apply(w);
}

static void trouble_gpu(struct world *w)
{
	size_t g = world_random(w, (uint32_t)w->num_gpus);
	struct gd_gpu *gpu = &w->gpus[g];
	if (gpu->health == GD_GPU_HEALTH_LOST)
		return;
	if (world_chance(w, 4))
		gpu->health = GD_GPU_HEALTH_LOST;
	else
		gpu->health = world_chance(w, 60) ? GD_GPU_HEALTH_OK : GD_GPU_HEALTH_NOT_ANSWERING;
}

static void stick_some_job(struct world *w)
{
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		if (!j->live || j->stuck || !world_chance(w, 10))
			continue;
		j->stuck = true;
		j->end_ms = w->now_ms + 60000;
		record_write_stuck(&w->lines, j->id, jobs_find(&w->fold, j->id)->attempts->attempt);
		world_apply(w);
		return;
	}
}

static void disturb(struct world *w)
{
	if (world_chance(w, 10))
		change_claims(w);
	if (world_chance(w, 15)) {
		size_t g = world_random(w, (uint32_t)w->num_gpus);
		uint64_t total = w->gpus[g].memory_total_bytes;
		w->foreign_bytes[g] = world_chance(w, 50) ? 0 : world_random(w, 100) * (total / 100);
	}
	if (world_chance(w, 10))
		control_some_job(w);
	if (world_chance(w, 4))
		trouble_gpu(w);
	if (world_chance(w, 1))
		stick_some_job(w);
}

static void end_jobs(struct world *w)
{
	for (size_t i = 1; i <= w->num_jobs; i++) {
		struct world_job *j = &w->jobs[i];
		if (j->live && w->now_ms >= j->end_ms)
			world_end_job(w, j, j->fails && world_chance(w, 50) ? JOB_FAILED : JOB_COMPLETED);
	}
}

/* ---- Starting ------------------------------------------------------------------------- */

static void begin(struct world *w, const struct scheduler_start *start)
{
	struct world_job *j = world_find(w, start->job->id);
	j->live = true;
	j->stuck = false;
	memset(j->seen_bytes, 0, sizeof(j->seen_bytes));
	j->start_ms = w->now_ms;
	j->end_ms = w->now_ms + j->duration_ms;
	j->first_start_ms = j->first_start_ms ? j->first_start_ms : w->now_ms;
	j->num_gpus = start->num_gpus;
	memcpy(j->gpus, start->gpus, start->num_gpus * sizeof(int));
	w->starts++;
	j->attempts++;
	record_write_start(&w->lines, &(struct attempt_start){.id = j->id,
					      .attempt = job_next_attempt(start->job),
					      .time_ms = w->now_ms,
					      .pid = (pid_t)(1000 + j->id),
					      .keeper = j->spec.keeper ? j->spec.keeper : "k",
					      .gpus = j->gpus,
					      .num_gpus = j->num_gpus});
	world_apply(w);
}

/* Like runner_place(): each start announces a claim, then checks again whether the memory suffices. */
static bool claim_fails(struct world *w, const struct scheduler_start *start)
{
	if (w->plain || w->calm || start->num_gpus == 0 || !world_chance(w, 30))
		return false;
	uint64_t id = start->job->id;
	if (world_chance(w, 30))
		change_claims(w);
	if (scheduler_still_fits(w->scheduler, id))
		return false;
	w->refusals++;
	if (scheduler_refuse(w->scheduler, id, (uint64_t)(w->now_ms + 50) * NS_PER_MS) < 0)
		world_fail(w, "out of memory");
	return true;
}

static void compare(struct world *w, const struct predicted *p, size_t n, const struct scheduler_start *start)
{
	if (n >= p->count)
		world_fail(w, "job %llu starts; the published inputs say that nothing more starts",
			(unsigned long long)start->job->id);
	if (p->starts[n].id != start->job->id || p->starts[n].num_gpus != start->num_gpus ||
		memcmp(p->starts[n].gpus, start->gpus, start->num_gpus * sizeof(int)) != 0)
		world_fail(w, "job %llu starts; the published inputs say job %llu, or other GPUs",
			(unsigned long long)start->job->id, (unsigned long long)p->starts[n].id);
}

const char *world_explain(struct world *w, uint64_t id)
{
	static struct text t;
	struct scheduler_verdict v;
	if (scheduler_verdict(w->scheduler, jobs_find(&w->fold, id), &v) == 0)
		scheduler_verdict_lines(&t, w->scheduler, &v, NULL, NULL);
	return text_string(&t);
}

static void start_jobs(struct world *w)
{
	struct scheduler_start start;
	struct predicted predicted;
	/* Without claims in between, an observer must have predicted which jobs start. */
	bool predict = world_chance(w, 40) && !world_has_parked(w);
	size_t n = 0;
	int r;
	if (predict)
		check_predict(w, &predicted);
	while ((r = scheduler_decide(w->scheduler, (uint64_t)w->now_ms * NS_PER_MS, &start)) == 1) {
		if (predict)
			compare(w, &predicted, n++, &start);
		check_start(w, &start);
		if (!predict && (claim_fails(w, &start) || world_park(w, start.job)))
			continue;
		begin(w, &start);
	}
	if (r < 0)
		world_fail(w, "out of memory");
	if (predict && n != predicted.count)
		world_fail(w, "job %llu does not start; the published inputs say that it does:\n%s",
			(unsigned long long)predicted.starts[n].id, world_explain(w, predicted.starts[n].id));
	w->compared += predict;
}

void world_step(struct world *w)
{
	w->step++;
	w->now_ms += 100 + world_random(w, 5000);
	end_jobs(w);
	for (uint32_t n = world_random(w, 4); n > 0 && w->num_jobs < w->max_jobs; n--)
		world_add_job(w);
	disturb(w);
	world_pass_time(w);
	if (world_chance(w, 60))
		world_sample(w);
	start_jobs(w);
	check_state(w);
}

/* ---- The end -------------------------------------------------------------------------- */

/* The next time at which a job ends or may begin; -1: none. */
static int64_t next_event(const struct world *w)
{
	int64_t begin = scheduler_next_begin(w->scheduler), next = begin ? begin : -1;
	for (size_t i = 1; i <= w->num_jobs; i++)
		if (w->jobs[i].live && (next < 0 || w->jobs[i].end_ms < next))
			next = w->jobs[i].end_ms;
	return next;
}

static void check_drained(struct world *w)
{
	for (size_t i = 0; i < w->fold.count; i++) {
		struct scheduler_verdict v;
		const struct job *job = w->fold.by_id[i];
		if (job->state != JOB_PENDING)
			continue;
		if (scheduler_verdict(w->scheduler, job, &v) < 0)
			world_fail(w, "out of memory");
		if (v.answer != SCHEDULER_NEVER && v.answer != SCHEDULER_BLOCKED)
			world_fail(w, "job %llu could start and never does:\n%s", (unsigned long long)job->id,
				world_explain(w, job->id));
	}
}

void world_drain(struct world *w)
{
	w->calm = true;
	w->num_claims = 0;
	(void)scheduler_set_claims(w->scheduler, NULL, 0);
	for (size_t g = 0; g < w->num_gpus; g++) {
		w->foreign_bytes[g] = 0;
		if (w->gpus[g].health != GD_GPU_HEALTH_LOST)
			w->gpus[g].health = GD_GPU_HEALTH_OK;
	}
	/* The last allocation does not end. */
	w->settings.end_ms = 0;
	world_restart(w);
	for (unsigned quiet = 0; quiet < 3;) {
		int64_t next = next_event(w);
		w->step++;
		w->now_ms = next > w->now_ms ? next : w->now_ms + 1000;
		end_jobs(w);
		world_pass_time(w);
		world_sample(w);
		uint64_t before = w->starts;
		start_jobs(w);
		check_state(w);
		quiet = next < 0 && w->starts == before ? quiet + 1 : 0;
		if (w->step > 100000)
			world_fail(w, "the queue does not drain");
	}
	check_drained(w);
}
