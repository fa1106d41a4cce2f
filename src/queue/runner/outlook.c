/* SPDX-License-Identifier: MIT */
#include "queue/runner/outlook.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "queue/journal/job_line.h"
#include "queue/schedule/claim_entries.h"
#include "queue/schedule/describe.h"
#include "queue/schedule/need.h"
#include "queue/schedule/pending.h"

/* Simulated GPUs, and those whose driver does not tell, show nothing of a job: see LEDGER_SETTLE_UNSEEN_NS. */
#define SETTLE_UNSEEN_MS ((int64_t)(LEDGER_SETTLE_UNSEEN_NS / NS_PER_MS))

/* ---- The ledger, as the runner has it --------------------------------------------- */

struct world {
	struct follow *follow;
	struct runner_rules rules;
	struct machine here;
	const struct gd_gpu_list *gpus;
	struct gd_gpu_list *own_gpus; /* asked for here; NULL where the caller gave them */
	struct claims_list claims;    /* of all queues, this one too */
	struct claim_entry *entries;
	char queue_name[HASH_TEXT];
	struct ledger ledger;
	struct ledger_note *notes;
	struct ledger_job *jobs;
	struct runs_there {
		struct gpu_user user;
		int positions[256];
		char stuck_words[JOB_STUCK_ROOM];
	} * running; /* what the jobs point into */
	struct pending *pending;
	struct placement_reservation reservation;
};

static void world_finish(struct world *w)
{
	gd_gpu_list_free(w->own_gpus);
	ledger_finish(&w->ledger);
	free(w->notes);
	free(w->jobs);
	free(w->running);
	free(w->entries);
	claims_list_finish(&w->claims);
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

/* Best effort: where claims cannot be read, what was promised by others is not known. */
static int read_claims(struct world *w)
{
	struct claims *c;
	hash_format(hash_bytes(w->follow->path, strlen(w->follow->path)), w->queue_name);
	bool simulated = w->gpus->count == 0 || w->gpus->gpus[0].vendor == GD_VENDOR_SIMULATED;
	if (!simulated && claims_open(NULL, &c, NULL) == 0) {
		claims_list(c, "", &w->claims);
		claims_close(c);
	}
	w->entries = calloc(w->claims.count + 1, sizeof(*w->entries));
	return w->entries ? 0 : -ENOMEM;
}

static bool is_settled(const struct world *w, const struct job *job)
{
	for (size_t i = 0; i < w->claims.count; i++) {
		const struct claim_info *c = &w->claims.claims[i].info;
		if (c->job == job->id && strcmp(c->queue, w->queue_name) == 0)
			return c->settled;
	}
	return date_now_ms() - job->attempts->start_ms >= SETTLE_UNSEEN_MS;
}

static struct ledger_job enter_running(struct world *w, const struct job *job, struct runs_there *at)
{
	struct placement_need need;
	job_need(job, w->rules.min_free_mem_mb, w->gpus, &need);
	for (size_t g = 0; g < job->attempts->num_gpus; g++)
		at->positions[g] = find_gpu(w->gpus, job->attempts->gpus[g]);
	bool here = job->keeper && strcmp(job->keeper->machine.host, w->here.host) == 0;
	at->user.root = here ? job->keeper->pid : 0;
	gpu_users_find(w->gpus, &(struct gpu_user *){&at->user}, 1);
	return (struct ledger_job){.id = job->id,
		.declared = need.declared,
		.settled = is_settled(w, job),
		.promised_bytes = need.memory_bytes,
		.pid = job->attempts->pid,
		.gpus = at->positions,
		.num_gpus = job->attempts->num_gpus,
		.pids = at->user.pids,
		.num_pids = at->user.num_pids};
}

static void note_stuck(struct world *w, const struct job *job, struct runs_there *at)
{
	job_stuck_words(job->id, at->stuck_words);
	for (size_t g = 0; g < job->attempts->num_gpus; g++)
		if (at->positions[g] >= 0)
			w->notes[at->positions[g]] = (struct ledger_note){.quarantined = true, .why = at->stuck_words};
}

/* Claims of this queue are not counted beside its jobs. */
static void drop_own_claims(struct world *w)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->claims.count; i++)
		if (strcmp(w->claims.claims[i].info.queue, w->queue_name) != 0)
			w->claims.claims[kept++] = w->claims.claims[i];
	w->claims.count = kept;
}

static int build_ledger(struct world *w)
{
	const struct jobs *js = &w->follow->jobs;
	size_t n = 0, running = js->counts[JOB_RUNNING];
	int r = read_claims(w);
	w->running = calloc(running + 1, sizeof(*w->running));
	w->jobs = calloc(running + w->claims.count + 1, sizeof(*w->jobs));
	w->notes = calloc(w->gpus->count + 1, sizeof(*w->notes));
	if (r < 0 || !w->running || !w->jobs || !w->notes)
		return -ENOMEM;
	for (size_t i = 0; i < js->count; i++)
		if (js->by_id[i]->state == JOB_RUNNING) {
			w->jobs[n] = enter_running(w, js->by_id[i], &w->running[n]);
			if (js->by_id[i]->stuck)
				note_stuck(w, js->by_id[i], &w->running[n]);
			n++;
		}
	drop_own_claims(w);
	n += claim_entries(&w->claims, w->gpus, w->entries, w->jobs + n);
	return ledger_build(&w->ledger, &(struct ledger_input){.gpus = w->gpus->gpus,
						.notes = w->notes,
						.num_gpus = w->gpus->count,
						.jobs = w->jobs,
						.num_jobs = n,
						.jobs_per_gpu = (unsigned)w->rules.jobs_per_gpu,
						.foreign_pids = gpu_users_foreign_pids(&w->here)});
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
		job_need(job, w->rules.min_free_mem_mb, w->gpus, &need);
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
		bool waits = r == -EAGAIN && need.num_gpus > 0;
		if (waits && !w->reservation.active && placement_reserve(&w->reservation, &w->ledger, id, &need) < 0)
			return -ENOMEM;
		/* The job in question may be left out with it: then it does not fit for the same reason. */
		pending_skip(
			w->pending, waits ? placement_beyond(&w->ledger, &need, &w->reservation) : need.memory_bytes);
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
	job_need(job, w->rules.min_free_mem_mb, w->gpus, &need);
	if (need.num_gpus > 256 || need.num_gpus > w->gpus->count) {
		text_appendf(t, "it needs %u GPU%s, there %s %zu\n", need.num_gpus, need.num_gpus == 1 ? "" : "s",
			w->gpus->count == 1 ? "is" : "are", w->gpus->count);
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

/* Those of the runner, whatever this shell shows of them. */
static int list_gpus(struct world *w, bool of_runner, struct gd_error *err)
{
	static const char *const limits[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
	for (size_t i = 0; of_runner && i < sizeof(limits) / sizeof(limits[0]); i++)
		unsetenv(limits[i]);
	if (of_runner && strcmp(w->rules.gpus, RULES_NO_GPUS) == 0) {
		w->gpus = w->own_gpus = calloc(1, sizeof(*w->own_gpus));
		return w->gpus ? 0 : error_set(err, -ENOMEM, "looking at the GPUs: out of memory");
	}
	int r = gd_gpu_list(w->rules.gpus, &w->own_gpus, err);
	w->gpus = w->own_gpus;
	return r;
}

static int words_by_gpu(struct world *w, const struct job *job, bool of_runner, struct text *t, struct gd_error *err)
{
	int r = w->gpus ? 0 : list_gpus(w, of_runner, err);
	if (r < 0)
		return r;
	if (w->gpus->count == 0)
		text_append_string(
			t, of_runner ? "its runner has no GPU\n" : "there is no GPU; simulated ones: --gpus sim:4\n");
	r = build_ledger(w);
	if (r == 0)
		r = gpu_words(w, job, t);
	return r < 0 ? error_set(err, r, "looking at the GPUs: %s", error_words(r)) : 0;
}

static int pending_words(struct follow *f, const struct job *job, const struct runner_rules *own,
	const struct gd_gpu_list *gpus, struct text *t, struct gd_error *err)
{
	cleanup_(world_finish) struct world w = {.follow = f, .gpus = gpus};
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
	machine_get(&w.here);
	int r = has_runner ? runner_rules_read(f->dir_fd, &rules) : 0;
	if (r < 0) {
		text_append_string(t, r == -EAGAIN
					      ? "its runner is just beginning; ask again\n"
					      : "its runner does not say what it goes by; it may be an older gpuq\n");
		return 0;
	}
	if (has_runner && strcmp(rules.host, w.here.host) != 0) {
		text_appendf(t, "its runner is on %s; ask there how its GPUs are\n", rules.host);
		return 0;
	}
	w.rules = has_runner ? rules : *own;
	return words_by_gpu(&w, job, has_runner, t, err);
}

int outlook(struct follow *f, const struct job *job, const struct runner_rules *rules, const struct gd_gpu_list *gpus,
	struct text *t, struct gd_error *err)
{
	text_appendf(t, "job %" PRIu64 ": ", job->id);
	job_line_write_outcome(t, job);
	text_append_char(t, '\n');
	if (job->state == JOB_HELD)
		text_appendf(t, "it is held; 'gpuq release %" PRIu64 "' lets it go on\n", job->id);
	return job->state == JOB_PENDING ? pending_words(f, job, rules, gpus, t, err) : 0;
}
