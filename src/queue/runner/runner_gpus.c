/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_gpus.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "gpu/probe.h"
#include "gpu/select.h"
#include "queue/keeper/oom.h"
#include "queue/runner/runner_energy.h"
#include "queue/runner/runner_idle.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/running.h"
#include "queue/schedule/scheduler.h"

#define MB ((uint64_t)1024 * 1024)

/* How often GPUs are polled while jobs run on them: growth must be seen before the next job is placed. */
#define SAMPLE_MS 2000

#define OPEN_TRIES 3

/* Finds out which processes belong to jobs: otherwise the jobs' usage would be counted in addition to the memory that
 * was promised to them. */
static int attribute_processes(struct runner *r)
{
	size_t n = 0;
	for (struct running *run = r->executing.running; run; run = run->next)
		n++;
	cleanup_(freep) struct gpu_user **users = calloc(n + 1, sizeof(*users));
	n = 0;
	for (struct running *run = r->executing.running; users && run; run = run->next) {
		const struct job *job = jobs_find(&r->following.jobs, run->id);
		run->user.root = job && job->keeper && !run->foreign ? job->keeper->pid : 0;
		users[n++] = &run->user;
	}
	if (!users)
		return -ENOMEM;
	gpu_users_find(r->watching.gpus, users, n);
	int e = 0;
	for (struct running *run = r->executing.running; e == 0 && run; run = run->next)
		e = scheduler_set_pids(r->deciding.scheduler, run->id, run->user.pids, run->user.num_pids);
	return e;
}

/* Reports the job's GPU usage to its keeper. */
static void tell_seen(struct running *run)
{
	struct keeper_order o = {.kind = KEEPER_ORDER_SEEN,
		.id = run->id,
		.peak_mem_mb = run->peak_bytes ? (int64_t)((run->peak_bytes + MB - 1) / MB) : -1,
		.gpu_full = run->full};
	energy_meter_power(&run->energy, &o.mean_power_mw, &o.power_span_ms);
	if (o.peak_mem_mb <= run->told_peak_mb && run->full == run->told_full && o.power_span_ms == run->told_span_ms)
		return;
	run->told_peak_mb = o.peak_mem_mb;
	run->told_full = run->full;
	run->told_span_ms = o.power_span_ms;
	runner_keeper_send(run->keeper, &o, NULL);
}

static bool is_lost(const struct runner *r, const struct running *run)
{
	for (size_t i = 0; i < run->num_gpus; i++)
		if (r->watching.gpus->gpus[run->gpus[i]]->health == GD_GPU_HEALTH_LOST)
			return true;
	return false;
}

/* Reports what only the runner knows about a job: its usage, and that its GPU is full or lost. */
static void tell_keeper(struct runner *r, struct running *run)
{
	if (!run->keeper)
		return;
	tell_seen(run);
	if (!run->told_settled && scheduler_is_settled(r->deciding.scheduler, run->id)) {
		run->told_settled = true;
		runner_keeper_send(
			run->keeper, &(struct keeper_order){.kind = KEEPER_ORDER_SETTLED, .id = run->id}, NULL);
	}
	if (!run->told_lost && is_lost(r, run)) {
		run->told_lost = true;
		runner_keeper_send(run->keeper, &(struct keeper_order){.kind = KEEPER_ORDER_LOST, .id = run->id}, NULL);
	}
}

static size_t jobs_on(const struct runner *r, int gpu)
{
	size_t n = 0;
	for (const struct running *run = r->executing.running; run; run = run->next)
		for (size_t i = 0; i < run->num_gpus; i++)
			n += run->gpus[i] == gpu && !run->foreign;
	return n;
}

/* A job's memory on one GPU: false if the driver does not report it, and the job is not alone there. */
static bool used_by(const struct runner *r, const struct running *run, int gpu, bool *ret_seen, uint64_t *ret)
{
	const struct gd_gpu *g = r->watching.gpus->gpus[gpu];
	const unsigned both = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE;
	*ret_seen = ledger_observed(g, run->user.pids, run->user.num_pids, gpu_users_foreign_pids(&r->machine), ret);
	if (*ret_seen)
		return true;
	const struct ledger_note *note = scheduler_note(r->deciding.scheduler, (size_t)gpu);
	if ((g->known & both) != both || !note->baseline_known || jobs_on(r, gpu) != 1 ||
		scheduler_is_claimed(r->deciding.scheduler, (size_t)gpu))
		return false;
	uint64_t used = g->memory_total_bytes - g->memory_free_bytes;
	*ret = used > note->baseline_bytes ? used - note->baseline_bytes : 0;
	return true;
}

static bool is_memory_known(const struct gd_gpu *g)
{
	return g->known & GD_GPU_KNOWN_MEMORY_TOTAL && g->known & GD_GPU_KNOWN_MEMORY_FREE;
}

static bool is_full(const struct gd_gpu *g, uint64_t bytes)
{
	return is_memory_known(g) && oom_is_full(g->memory_total_bytes, g->memory_free_bytes, bytes);
}

/* Processes and memory are queried separately: a job that ended in between seems to use more than is in use. */
static bool is_torn(const struct gd_gpu *g, uint64_t bytes)
{
	return is_memory_known(g) && g->memory_free_bytes <= g->memory_total_bytes &&
	       bytes > g->memory_total_bytes - g->memory_free_bytes;
}

static void watch_job(struct runner *r, struct running *run)
{
	bool full = false, torn = false;
	uint64_t most = 0, most_seen = 0;
	for (size_t i = 0; i < run->num_gpus; i++) {
		const struct gd_gpu *g = r->watching.gpus->gpus[run->gpus[i]];
		uint64_t bytes;
		bool seen;
		if (!used_by(r, run, run->gpus[i], &seen, &bytes))
			continue;
		most = bytes > most ? bytes : most;
		most_seen = seen && bytes > most_seen ? bytes : most_seen;
		full = full || is_full(g, bytes);
		torn = torn || is_torn(g, bytes);
	}
	/* A job that has just ended, or not begun, is not on its GPU: keep what was last seen. */
	if (most && !torn)
		run->full = full;
	run->peak_bytes = most_seen > run->peak_bytes ? most_seen : run->peak_bytes;
	runner_energy_sample(r, run);
	runner_idle_sample(r, run);
	tell_keeper(r, run);
}

/* Takes ownership of the list. */
static int take_list(struct runner *r, struct gd_gpu_list *list)
{
	gd_gpu_list_free(r->watching.gpus);
	r->watching.gpus = list;
	r->watching.simulated = list->count > 0 && list->gpus[0]->vendor == GD_VENDOR_SIMULATED;
	int e = attribute_processes(r);
	if (e == 0)
		e = scheduler_sample(r->deciding.scheduler, clock_now_ns(), list->gpus, list->count);
	for (struct running *run = r->executing.running; e == 0 && run; run = run->next)
		watch_job(r, run);
	return e;
}

static void say_health(struct runner *r, const struct gd_gpu *gpu)
{
	switch (gpu->health) {
	case GD_GPU_HEALTH_OK:
		runner_say(r, "gpuq: GPU %d answers again\n", gpu->index);
		break;
	case GD_GPU_HEALTH_NOT_ANSWERING:
		runner_say(r, "gpuq: GPU %d does not answer; no jobs start on it until it does\n", gpu->index);
		break;
	case GD_GPU_HEALTH_LOST:
		runner_say(r, "gpuq: GPU %d has fallen off the bus; no jobs start on it\n", gpu->index);
		break;
	case GD_GPU_HEALTH_UNREADABLE:
		runner_say(r, "gpuq: GPU %d cannot be read; no jobs start on it\n", gpu->index);
		break;
	}
}

/* Reports each change once; at the beginning, all GPUs are expected to answer. */
static void say_changes(struct runner *r, const struct gd_gpu_list *now)
{
	const struct gd_gpu_list *before = r->watching.gpus;
	for (size_t i = 0; i < now->count; i++) {
		enum gd_gpu_health was = before && i < before->count ? before->gpus[i]->health : GD_GPU_HEALTH_OK;
		if (now->gpus[i]->health != was)
			say_health(r, now->gpus[i]);
	}
}

static int new_sample(struct runner *r, struct gd_error *err)
{
	struct gd_gpu_list *list;
	int e = gpu_probe_list(r->watching.probe, &list, err);
	if (e < 0)
		return e;
	say_changes(r, list);
	e = take_list(r, list);
	return e < 0 ? error_set(err, e, "cannot query the GPUs: out of memory") : 0;
}

void runner_gpus_reopen(struct runner *r)
{
	struct gd_error err;
	if (r->watching.probe)
		return;
	int e = runner_gpus_open(r, &err);
	if (e < 0) {
		runner_gpus_close(r);
		runner_pause(r, RUNNER_TROUBLE_GPUS, e);
	} else {
		runner_works(r, 1u << RUNNER_TROUBLE_GPUS);
	}
}

/*
 * Selects the GPUs that were found first, by name and in this order: "auto" would leave out a GPU that
 * fails, and jobs know their GPUs by position.
 */
static int pin_gpus(struct runner *r, struct gd_error *err)
{
	cleanup_(text_finish) struct text spec = {0};
	if (r->watching.gpu_spec || r->watching.simulated || r->watching.gpus->count == 0)
		return 0;
	for (size_t i = 0; i < r->watching.gpus->count; i++) {
		const struct gd_gpu *gpu = r->watching.gpus->gpus[i];
		text_append_string(&spec, i ? "," : "");
		if (gpu->known & GD_GPU_KNOWN_UUID && gpu->vendor == GD_VENDOR_NVIDIA)
			text_append_string(&spec, gpu->uuid);
		else
			text_appendf(&spec, "%d", gpu->index);
	}
	r->watching.gpu_spec = text_take(&spec);
	if (!r->watching.gpu_spec)
		return error_set(err, -ENOMEM, "cannot query the GPUs: out of memory");
	return gpu_probe_select(r->watching.probe, r->watching.gpu_spec, err);
}

static void on_probe(void *context, uint32_t events)
{
	struct runner *r = context;
	struct gpu_news news;
	int e;
	bool round = false;
	(void)events;
	while ((e = gpu_probe_read(r->watching.probe, &news)) > 0) {
		round = round || news.kind == GPU_NEWS_ROUND || news.kind == GPU_NEWS_CARD;
		if (news.kind == GPU_NEWS_ROUND)
			r->watching.incomplete = false;
	}
	struct gd_error err;
	if (e == -EPIPE) {
		/* A driver crashed the probe: the GPUs keep their last values, and a new probe polls them. */
		runner_gpus_close(r);
		runner_gpus_reopen(r);
		return;
	}
	/* The first GPUs may be found late, if their driver did not answer at the beginning. */
	if (round && !r->watching.incomplete && new_sample(r, &err) == 0 && pin_gpus(r, &err) == 0)
		r->deciding.must_place = true;
}

static int probe_open(struct runner *r, struct gd_error *err)
{
	struct gpu_probe_options o = {.spec = r->watching.gpu_spec ? r->watching.gpu_spec : r->options.gpus,
		.period_ms =
			(unsigned)(r->options.poll_interval_ms < SAMPLE_MS ? r->options.poll_interval_ms : SAMPLE_MS),
		.events = true,
		.silent = true,
		.last = r->watching.gpus};
	int e = gpu_probe_open(&o, &r->watching.probe, err);
	if (e < 0)
		return e;
	/* A GPU that does not answer takes seconds. A runner with jobs does not wait for it. */
	r->watching.incomplete = r->watching.gpus != NULL;
	if (r->watching.incomplete)
		return 0;
	struct gpu_news news;
	while ((e = gpu_probe_read(r->watching.probe, &news)) >= 0 && !(e == 1 && news.kind == GPU_NEWS_ROUND)) {
		struct pollfd p = {gpu_probe_fd(r->watching.probe), POLLIN, 0};
		if (e == 0 && poll(&p, 1, -1) < 0 && errno != EINTR)
			return error_set(err, -errno, "cannot query the GPUs: %s", error_words(errno));
	}
	if (e < 0)
		return error_set(err, e, "cannot query the GPUs: the probe ended");
	return new_sample(r, err);
}

static int open_once(struct runner *r, struct gd_error *err)
{
	int e = probe_open(r, err);
	return e == 0 ? pin_gpus(r, err) : e;
}

int runner_gpus_open(struct runner *r, struct gd_error *err)
{
	int e;
	/* The driver may crash sometimes, or the probe may have been killed. */
	for (int tries = 1; (e = open_once(r, err)) == -EPIPE && tries < OPEN_TRIES; tries++)
		runner_gpus_close(r);
	if (e < 0)
		return e;
	e = loop_add(r->loop, gpu_probe_fd(r->watching.probe), EPOLLIN, on_probe, r, &r->watching.probe_source);
	return e < 0 ? error_set(err, e, "cannot query the GPUs: %s", error_words(e)) : 0;
}

void runner_gpus_close(struct runner *r)
{
	loop_remove(r->watching.probe_source);
	r->watching.probe_source = NULL;
	gpu_probe_close(r->watching.probe);
	r->watching.probe = NULL;
}

void runner_gpus_say_source(struct runner *r)
{
	const struct gd_gpu_list *gpus = r->watching.gpus;
	if (gpus->count > 0 && !gpu_is_granted(gpus->gpus[0]))
		return;
	for (size_t i = 0; i < gpus->num_warnings; i++)
		runner_say(r, "gpuq: %s\n", gpus->warnings[i]);
	if (gpus->num_warnings == 0 && gpus->count == 0)
		runner_say(r, "gpuq: no GPU found; use --gpus sim:4 to simulate some\n");
}
