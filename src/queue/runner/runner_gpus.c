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
#include "queue/keeper/keeper_news.h"
#include "queue/keeper/oom.h"
#include "queue/runner/runner_keeper.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_trouble.h"
#include "queue/runner/running.h"

#define MB ((uint64_t)1024 * 1024)

/* How often GPUs are asked while jobs run on them: growth must be seen before the next job is placed. */
#define SAMPLE_MS 2000

#define OPEN_TRIES 3

/* So that what they use is not counted beside what was promised. */
static void attribute_processes(struct runner *r)
{
	size_t n = 0;
	for (struct running *run = r->running; run; run = run->next)
		n++;
	cleanup_(freep) struct gpu_user **users = calloc(n + 1, sizeof(*users));
	n = 0;
	for (struct running *run = r->running; users && run; run = run->next) {
		const struct job *job = jobs_find(&r->jobs, run->id);
		run->user.root = job && job->keeper && !run->foreign ? job->keeper->pid : 0;
		users[n++] = &run->user;
	}
	gpu_users_find(r->gpus, users, n);
}

static void send_seen(struct running *run, int64_t peak_mb)
{
	const struct job *job = jobs_find(&run->runner->jobs, run->id);
	if (run->keeper)
		runner_keeper_send(run->keeper,
			&(struct keeper_order){.kind = KEEPER_ORDER_SEEN,
				.id = run->id,
				.peak_mem_mb = peak_mb,
				.gpu_full = run->full},
			NULL);
	else if (job && job->keeper && job->attempts)
		(void)keeper_news_write(run->runner->journal->dir_fd, job->keeper->name,
			&(struct keeper_news){.id = run->id,
				.attempt = job->attempts->attempt,
				.peak_mem_mb = peak_mb,
				.gpu_full = run->full,
				.gpu_lost = run->told_lost});
}

static bool is_lost(const struct runner *r, const struct running *run)
{
	for (size_t i = 0; i < run->num_gpus; i++)
		if (r->gpus->gpus[run->gpus[i]]->health == GD_GPU_HEALTH_LOST)
			return true;
	return false;
}

static void tell_lost(struct running *run, int64_t peak_mb)
{
	run->told_lost = true;
	if (run->keeper) {
		runner_keeper_send(run->keeper, &(struct keeper_order){.kind = KEEPER_ORDER_LOST, .id = run->id}, NULL);
		return;
	}
	/* A keeper that is not ours is told to end it, and finds why in the news. */
	send_seen(run, peak_mb);
	running_cancel(run, false);
}

/* What only we can see of a job: how much it uses, that its GPU is full, or gone. */
static void tell_keeper(struct runner *r, struct running *run)
{
	int64_t peak_mb = run->peak_bytes ? (int64_t)((run->peak_bytes + MB - 1) / MB) : -1;
	if (run->ended || run->foreign || !(run->keeper || run->started))
		return;
	if (peak_mb > run->told_peak_mb || run->full != run->told_full) {
		run->told_peak_mb = peak_mb;
		run->told_full = run->full;
		send_seen(run, peak_mb);
	}
	if (run->watch.settled && !run->told_settled && run->keeper) {
		run->told_settled = true;
		runner_keeper_send(
			run->keeper, &(struct keeper_order){.kind = KEEPER_ORDER_SETTLED, .id = run->id}, NULL);
	}
	if (!run->told_lost && is_lost(r, run))
		tell_lost(run, peak_mb);
}

static size_t jobs_on(const struct runner *r, int gpu)
{
	size_t n = 0;
	for (const struct running *run = r->running; run; run = run->next)
		for (size_t i = 0; i < run->num_gpus; i++)
			n += run->gpus[i] == gpu && !run->ended && !run->foreign;
	return n;
}

/* What a job uses of one GPU: false where the driver does not tell, and it is not alone there either. */
static bool used_by(const struct runner *r, const struct running *run, int gpu, bool *ret_seen, uint64_t *ret)
{
	const struct gd_gpu *g = r->gpus->gpus[gpu];
	const unsigned both = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE;
	*ret_seen = ledger_observed(g, run->user.pids, run->user.num_pids, gpu_users_foreign_pids(&r->machine), ret);
	if (*ret_seen)
		return true;
	if ((g->known & both) != both || !r->notes[gpu].baseline_known || jobs_on(r, gpu) != 1 || r->others.count > 0)
		return false;
	uint64_t used = g->memory_total_bytes - g->memory_free_bytes, others = r->notes[gpu].baseline_bytes;
	*ret = used > others ? used - others : 0;
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

/* The driver is asked for processes and for memory one after the other: a job that ended in between has more of the
 * card than is in use. */
static bool is_torn(const struct gd_gpu *g, uint64_t bytes)
{
	return is_memory_known(g) && g->memory_free_bytes <= g->memory_total_bytes &&
	       bytes > g->memory_total_bytes - g->memory_free_bytes;
}

static void watch_job(struct runner *r, struct running *run, uint64_t now)
{
	bool any_seen = false, full = false, torn = false;
	uint64_t most = 0, most_seen = 0;
	for (size_t i = 0; i < run->num_gpus; i++) {
		const struct gd_gpu *g = r->gpus->gpus[run->gpus[i]];
		uint64_t bytes;
		bool seen;
		if (!used_by(r, run, run->gpus[i], &seen, &bytes))
			continue;
		any_seen = any_seen || seen;
		most = bytes > most ? bytes : most;
		most_seen = seen && bytes > most_seen ? bytes : most_seen;
		full = full || is_full(g, bytes);
		torn = torn || is_torn(g, bytes);
	}
	/* One that has just ended, or not yet begun, is not on its GPU: what was last seen of it holds. */
	if (most && !torn)
		run->full = full;
	run->peak_bytes = most_seen > run->peak_bytes ? most_seen : run->peak_bytes;
	(void)ledger_watch(&run->watch, now, any_seen, most_seen);
	tell_keeper(r, run);
}

static void watch_memory(struct runner *r)
{
	uint64_t now = clock_now_ns();
	for (struct running *run = r->running; run; run = run->next)
		watch_job(r, run, now);
	for (size_t g = 0; g < r->gpus->count; g++)
		ledger_watch_baseline(&r->notes[g], r->gpus->gpus[g], jobs_on(r, (int)g) > 0);
}

/* What has ended before this sample is no longer in it. */
static void forget_ended(struct runner *r)
{
	for (struct running *run = r->running, *next; run; run = next) {
		next = run->next;
		if (run->ended)
			running_remove(run);
	}
}

static int new_sample(struct runner *r, struct gd_error *err)
{
	struct gd_gpu_list *list;
	int e = gpu_probe_list(r->probe, &list, err);
	if (e < 0)
		return e;
	if (!r->notes || !r->gpus || r->gpus->count != list->count) {
		struct ledger_note *notes = calloc(list->count + 1, sizeof(*notes));
		if (!notes) {
			gd_gpu_list_free(list);
			return error_set(err, -ENOMEM, "asking the GPUs: out of memory");
		}
		free(r->notes);
		r->notes = notes;
	}
	gd_gpu_list_free(r->gpus);
	r->gpus = list;
	r->simulated = list->count > 0 && list->gpus[0]->vendor == GD_VENDOR_SIMULATED;
	forget_ended(r);
	attribute_processes(r);
	watch_memory(r);
	return 0;
}

void runner_gpus_reopen(struct runner *r)
{
	struct gd_error err;
	if (r->probe)
		return;
	int e = runner_gpus_open(r, &err);
	if (e < 0) {
		runner_gpus_close(r);
		runner_pause(r, RUNNER_TROUBLE_GPUS, e);
	} else {
		runner_works(r, 1u << RUNNER_TROUBLE_GPUS);
	}
}

static void on_probe(void *context, uint32_t events)
{
	struct runner *r = context;
	struct gpu_news news;
	int e;
	bool round = false;
	(void)events;
	while ((e = gpu_probe_read(r->probe, &news)) > 0)
		round = round || news.kind == GPU_NEWS_ROUND || news.kind == GPU_NEWS_CARD;
	struct gd_error err;
	if (e == -EPIPE) {
		/* A driver crashed it: the cards keep what they said last, and are asked again by another. */
		runner_gpus_close(r);
		runner_gpus_reopen(r);
		return;
	}
	if (round && new_sample(r, &err) == 0)
		r->must_place = true;
}

static int probe_open(struct runner *r, struct gd_error *err)
{
	struct gpu_probe_options o = {.spec = r->gpu_spec ? r->gpu_spec : r->options.gpus,
		.period_ms =
			(unsigned)(r->options.poll_interval_ms < SAMPLE_MS ? r->options.poll_interval_ms : SAMPLE_MS),
		.events = true};
	int e = gpu_probe_open(&o, &r->probe, err);
	if (e < 0)
		return e;
	struct gpu_news news;
	while ((e = gpu_probe_read(r->probe, &news)) >= 0 && !(e == 1 && news.kind == GPU_NEWS_ROUND)) {
		struct pollfd p = {gpu_probe_fd(r->probe), POLLIN, 0};
		if (e == 0 && poll(&p, 1, -1) < 0 && errno != EINTR)
			return error_set(err, -errno, "asking the GPUs: %s", error_words(errno));
	}
	if (e < 0)
		return error_set(err, e, "asking the GPUs: the probe ended");
	return new_sample(r, err);
}

/*
 * The GPUs that were there at first, by name and in this order: "auto" would leave
 * out one that falls ill, and jobs are known by the position of their GPUs.
 */
static int pin_gpus(struct runner *r, struct gd_error *err)
{
	cleanup_(text_finish) struct text spec = {0};
	for (size_t i = 0; i < r->gpus->count; i++) {
		const struct gd_gpu *gpu = r->gpus->gpus[i];
		text_append_string(&spec, i ? "," : "");
		if (gpu->known & GD_GPU_KNOWN_UUID && gpu->vendor == GD_VENDOR_NVIDIA)
			text_append_string(&spec, gpu->uuid);
		else
			text_appendf(&spec, "%d", gpu->index);
	}
	r->gpu_spec = text_take(&spec);
	if (!r->gpu_spec)
		return error_set(err, -ENOMEM, "asking the GPUs: out of memory");
	runner_gpus_close(r);
	return probe_open(r, err);
}

static int open_once(struct runner *r, struct gd_error *err)
{
	int e = probe_open(r, err);
	if (e == 0 && !r->gpu_spec && !r->simulated && r->gpus->count > 0)
		e = pin_gpus(r, err);
	return e;
}

int runner_gpus_open(struct runner *r, struct gd_error *err)
{
	int e;
	/* A driver that crashes now and then, or somebody who kills processes. */
	for (int tries = 1; (e = open_once(r, err)) == -EPIPE && tries < OPEN_TRIES; tries++)
		runner_gpus_close(r);
	return e < 0 ? e : loop_add(r->loop, gpu_probe_fd(r->probe), EPOLLIN, on_probe, r, &r->probe_source);
}

void runner_gpus_close(struct runner *r)
{
	loop_remove(r->probe_source);
	r->probe_source = NULL;
	gpu_probe_close(r->probe);
	r->probe = NULL;
}
