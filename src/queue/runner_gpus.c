/* SPDX-License-Identifier: MIT */
/* The runner's GPUs: asked again and again, and what its jobs are seen to use of them. */
#include "queue/runner_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"

#define MB ((uint64_t)1024 * 1024)

/* How often GPUs are asked while jobs run on them: growth must be seen before the next job is placed. */
#define SAMPLE_MS 2000

/* ---- GPUs ------------------------------------------------------------------------- */

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

bool runner_foreign_pids(const struct runner *r)
{
	return gpu_users_foreign_pids(&r->machine);
}

/* What only we can see of a job: how much it uses, and that its GPU is gone. */
static void tell_keeper(struct runner *r, struct running *run)
{
	int64_t peak_mb = (int64_t)((run->watch.bytes + MB - 1) / MB);
	if (!run->slot || run->ended)
		return;
	if (peak_mb > run->told_peak_mb) {
		run->told_peak_mb = peak_mb;
		slot_send(run->slot, &(struct order){.kind = ORDER_PEAK, .id = run->id, .peak_mem_mb = peak_mb}, NULL);
	}
	for (size_t i = 0; i < run->num_gpus && !run->told_lost; i++)
		if (r->gpus->gpus[run->gpus[i]].health == GD_GPU_LOST) {
			run->told_lost = true;
			slot_send(run->slot, &(struct order){.kind = ORDER_LOST, .id = run->id}, NULL);
		}
}

static void watch_memory(struct runner *r)
{
	uint64_t now = clock_now_ns();
	for (struct running *run = r->running; run; run = run->next) {
		uint64_t bytes = 0, most = 0;
		bool known = false;
		for (size_t i = 0; i < run->num_gpus; i++)
			if (ledger_observed(&r->gpus->gpus[run->gpus[i]], run->user.pids, run->user.num_pids,
				    runner_foreign_pids(r), &bytes)) {
				known = true;
				most = bytes > most ? bytes : most;
			}
		ledger_watch(&run->watch, now, known, most);
		tell_keeper(r, run);
	}
	for (size_t g = 0; g < r->gpus->count; g++) {
		bool any = false;
		for (struct running *run = r->running; run && !any; run = run->next)
			for (size_t i = 0; i < run->num_gpus; i++)
				any = any || (run->gpus[i] == (int)g && !run->ended);
		ledger_watch_baseline(&r->notes[g], &r->gpus->gpus[g], any);
	}
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
	r->simulated = list->count > 0 && list->gpus[0].vendor == GD_VENDOR_SIMULATED;
	forget_ended(r);
	attribute_processes(r);
	watch_memory(r);
	return 0;
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
		gpus_close(r);
		if (gpus_open(r, &err) < 0)
			runner_say(r, "gpuq: %s\n", err.message);
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
		const struct gd_gpu *gpu = &r->gpus->gpus[i];
		text_append_string(&spec, i ? "," : "");
		if (gpu->known & GD_GPU_UUID && gpu->vendor == GD_VENDOR_NVIDIA)
			text_append_string(&spec, gpu->uuid);
		else
			text_appendf(&spec, "%d", gpu->index);
	}
	r->gpu_spec = text_take(&spec);
	if (!r->gpu_spec)
		return error_set(err, -ENOMEM, "asking the GPUs: out of memory");
	gpus_close(r);
	return probe_open(r, err);
}

int gpus_open(struct runner *r, struct gd_error *err)
{
	int e = probe_open(r, err);
	if (e == 0 && !r->gpu_spec && !r->simulated && r->gpus->count > 0)
		e = pin_gpus(r, err);
	return e < 0 ? e : loop_add(r->loop, gpu_probe_fd(r->probe), EPOLLIN, on_probe, r, &r->probe_source);
}

void gpus_close(struct runner *r)
{
	loop_remove(r->probe_source);
	r->probe_source = NULL;
	gpu_probe_close(r->probe);
	r->probe = NULL;
}
