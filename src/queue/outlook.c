/* SPDX-License-Identifier: MIT */
#include "queue/outlook.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "queue/describe.h"
#include "queue/pending.h"
#include "queue/show.h"

#define MB ((uint64_t)1024 * 1024)

int runner_rules_write(int fd, const struct runner_rules *rules)
{
	char line[512];
	struct machine m = {0};
	machine_get(&m);
	int n = snprintf(line, sizeof(line), "pid %d host %s min_free_mem_mb %" PRId64 " jobs_per_gpu %d gpus %s\n",
		(int)getpid(), m.host, rules->min_free_mem_mb, rules->jobs_per_gpu, rules->gpus);
	if (pwrite(fd, line, (size_t)n, 0) != n)
		return -EIO;
	return ftruncate(fd, n) < 0 ? -errno : 0;
}

int runner_rules_read(int dir_fd, struct runner_rules *ret)
{
	char line[512];
	struct runner_rules r = {0};
	int at = 0;
	if (dir_fd < 0 || file_read_small(dir_fd, "runner.lock", line, sizeof(line)) < 0 ||
		sscanf(line, "pid %*d host %*64s min_free_mem_mb %" SCNd64 " jobs_per_gpu %d gpus %n",
			&r.min_free_mem_mb, &r.jobs_per_gpu, &at) < 2 ||
		at == 0)
		return -ENOENT;
	snprintf(r.gpus, sizeof(r.gpus), "%s", line + at);
	*ret = r;
	return 0;
}

void job_need(const struct job *job, int64_t min_free_mem_mb, struct placement_need *ret)
{
	int64_t mb = job->wish->mem_mb;
	bool declared = mb >= 0;
	if (job->need_mb > 0 && job->need_mb > mb) {
		mb = job->need_mb;
		declared = true;
	}
	*ret = (struct placement_need){.memory_bytes = (uint64_t)(declared ? mb : min_free_mem_mb) * MB,
		.declared = declared,
		.num_gpus = job->wish->num_gpus < 0 ? 1 : (unsigned)job->wish->num_gpus};
}

/* ---- The ledger, as the runner has it --------------------------------------------- */

struct world {
	struct follow *follow;
	struct runner_rules rules;
	const struct gd_gpu_list *gpus;
	struct gd_gpu_list *own_gpus; /* asked for here; NULL where the caller gave them */
	struct ledger ledger;
	struct ledger_job *running;
	int *positions; /* of all running jobs, one after another */
	struct pending *pending;
	struct placement_reservation reservation;
};

static void world_finish(struct world *w)
{
	gd_gpu_list_free(w->own_gpus);
	ledger_finish(&w->ledger);
	free(w->running);
	free(w->positions);
	pending_destroy(w->pending);
	placement_reservation_finish(&w->reservation);
}

static int find_gpu(const struct gd_gpu_list *gpus, int index)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->gpus[i].index == index)
			return (int)i;
	return -1;
}

static int build_ledger(struct world *w)
{
	const struct jobs *js = &w->follow->jobs;
	size_t n = 0, used = 0;
	w->running = calloc(js->counts[JOB_RUNNING] + 1, sizeof(*w->running));
	w->positions = calloc((js->counts[JOB_RUNNING] + 1) * 256, sizeof(int));
	if (!w->running || !w->positions)
		return -ENOMEM;
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING)
			continue;
		struct placement_need need;
		job_need(job, w->rules.min_free_mem_mb, &need);
		int *at = w->positions + used;
		for (size_t g = 0; g < job->attempts->num_gpus; g++)
			at[g] = find_gpu(w->gpus, job->attempts->gpus[g]);
		used += job->attempts->num_gpus;
		w->running[n++] = (struct ledger_job){.id = job->id,
			.declared = need.declared,
			.promised_bytes = need.memory_bytes,
			.pid = job->attempts->pid,
			.gpus = at,
			.num_gpus = job->attempts->num_gpus};
	}
	return ledger_build(&w->ledger, &(struct ledger_input){.gpus = w->gpus->gpus,
						.num_gpus = w->gpus->count,
						.jobs = w->running,
						.num_jobs = n,
						.jobs_per_gpu = (unsigned)w->rules.jobs_per_gpu});
}

/* The first job of those it waits for that is not completed. */
static const struct job *waits_for(const struct jobs *js, const struct job *job)
{
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++) {
		const struct job *dep = jobs_find(js, job->after[i]);
		if (dep && dep->state != JOB_COMPLETED)
			return dep;
	}
	return NULL;
}

static int line_up(struct world *w)
{
	const struct jobs *js = &w->follow->jobs;
	int r = pending_create(&w->pending);
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		struct job *job = js->by_id[i];
		struct placement_need need;
		if (job->state != JOB_PENDING || waits_for(js, job))
			continue;
		job_need(job, w->rules.min_free_mem_mb, &need);
		job->wait = (struct pending_job){.order = job->id, .priority = job->priority};
		r = pending_add(w->pending, &job->wait, &need);
	}
	return r;
}

/* Gives those before the job what they will get; *ret_before: how many of them start first. */
static int play(struct world *w, const struct job *job, size_t *ret_before)
{
	int gpus[256];
	struct pending_job *p;
	*ret_before = 0;
	pending_rewind(w->pending);
	placement_rewind(&w->reservation);
	while ((p = pending_peek(w->pending)) && p->order != job->id) {
		struct placement_need need = *pending_need(w->pending, p);
		uint64_t id = p->order;
		int r = need.num_gpus > 256 ? -ENODEV
					    : placement_choose(&w->ledger, id, &need, &w->reservation, gpus, NULL);
		if (r == 0) {
			ledger_add(&w->ledger, &(struct ledger_job){.id = id,
						       .declared = need.declared,
						       .promised_bytes = need.memory_bytes,
						       .gpus = gpus,
						       .num_gpus = need.num_gpus});
			pending_remove(w->pending, p);
			++*ret_before;
			continue;
		}
		/* One of the same kind does not fit: nor does this one, for that reason. */
		pending_skip(w->pending);
		if (r == -EAGAIN && !w->reservation.active && need.num_gpus > 0) {
			r = placement_reserve(&w->reservation, &w->ledger, id, &need);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int gpu_words(struct world *w, const struct job *job, struct text *t)
{
	struct placement_need need;
	size_t before = 0;
	cleanup_(freep) struct placement_verdict *verdicts = calloc(w->gpus->count + 1, sizeof(*verdicts));
	int gpus[256];
	int r = verdicts ? line_up(w) : -ENOMEM;
	if (r == 0)
		r = play(w, job, &before);
	if (r < 0)
		return r;
	job_need(job, w->rules.min_free_mem_mb, &need);
	if (need.num_gpus > 256 || need.num_gpus > w->gpus->count) {
		text_appendf(t, "it needs %u GPUs, there %s %zu\n", need.num_gpus, w->gpus->count == 1 ? "is" : "are",
			w->gpus->count);
		return 0;
	}
	r = placement_choose(&w->ledger, job->id, &need, &w->reservation, gpus, verdicts);
	if (before)
		text_appendf(t, "%zu job%s before it\n", before, before == 1 ? " starts" : "s start");
	if (r == 0)
		text_append_string(t, need.num_gpus ? "there is room for it now\n"
						    : "it needs no GPU, and waits for a free processor\n");
	for (size_t g = 0; r != 0 && g < w->gpus->count; g++) {
		placement_words(t, &w->ledger, g, &need, &verdicts[g], describe_process, NULL);
		text_append_char(t, '\n');
	}
	return 0;
}

static int pending_words(struct follow *f, const struct job *job, const struct runner_rules *rules,
	const struct gd_gpu_list *gpus, struct text *t, struct gd_error *err)
{
	cleanup_(world_finish) struct world w = {.follow = f, .rules = *rules, .gpus = gpus};
	const struct job *dep = waits_for(&f->jobs, job);
	if (follow_runner(f) == 0)
		text_append_string(t, "nobody runs this queue; start a runner with 'gpuq run'\n");
	else
		runner_rules_read(f->dir_fd, &w.rules);
	if (dep) {
		text_appendf(t, "it waits for job %" PRIu64 ", which is %s\n", dep->id,
			job_state_name((enum job_state)dep->state));
		return 0;
	}
	int r = gpus ? 0 : gd_gpu_list(*w.rules.gpus ? w.rules.gpus : NULL, &w.own_gpus, err);
	if (r < 0)
		return r;
	if (!gpus)
		w.gpus = w.own_gpus;
	if (w.gpus->count == 0)
		text_append_string(t, "there is no GPU; simulated ones: --gpus sim:4\n");
	r = build_ledger(&w);
	if (r == 0)
		r = gpu_words(&w, job, t);
	return r < 0 ? error_set(err, r, "looking at the GPUs: %s", error_words(r)) : 0;
}

int outlook(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err)
{
	text_appendf(t, "job %" PRIu64 ": ", job->id);
	show_outcome(t, job);
	text_append_char(t, '\n');
	if (job->state == JOB_HELD)
		text_appendf(t, "it is held; 'gpuq release %" PRIu64 "' lets it go on\n", job->id);
	return job->state == JOB_PENDING ? pending_words(f, job, rules, gpus, t, err) : 0;
}
