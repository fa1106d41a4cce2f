/* SPDX-License-Identifier: MIT */
/*
 * The program of `make demo`: one worker process per GPU counts primes. One worker is
 * killed in the middle of its work, and the sum is still right.
 *
 *     demo [GPUS]
 *
 * The work is arithmetic on the CPU, so it runs anywhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <gpu_dispatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS     200
#define BLOCK      60000
#define EXPECTED   788060 /* primes below BLOCKS * BLOCK = 12,000,000 */
#define KILL_AFTER (BLOCKS / 3)
#define BAR        30

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define GREY   "\033[90m"
#define PLAIN  "\033[0m"

/* ---- In each worker ----------------------------------------------------- */

static bool is_prime(uint32_t n)
{
	if (n < 4)
		return n > 1;
	if (n % 2 == 0)
		return false;
	for (uint32_t i = 3; i * i <= n; i += 2)
		if (n % i == 0)
			return false;
	return true;
}

static int count_primes(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint32_t first;
	uint32_t primes = 0;
	(void)state;

	memcpy(&first, task->data, sizeof(first));
	for (uint32_t n = first; n < first + BLOCK; n++) {
		primes += is_prime(n);
		if (gd_worker_cancelled(w, 0))
			return gd_worker_fail(w, -ECANCELED, "stopped at %" PRIu32, n);
	}
	return gd_worker_result(w, &primes, sizeof(primes));
}

/* ---- In this program ---------------------------------------------------- */

struct demo {
	struct gd_dispatcher *dispatcher;
	uint32_t next;
	uint32_t primes;
	int done;
	int workers;
	bool terminal;
	int drawn; /* lines of the picture on the screen */
	int64_t killed_pid;
	int killed_slot;
	uint64_t killed_block;
	bool replaced;
};

static int next_block(void *context, struct gd_feed *feed)
{
	struct demo *demo = context;
	if (demo->next == BLOCKS)
		return 0;
	uint32_t first = demo->next++ * BLOCK;
	return gd_feed_emit(feed, &first, sizeof(first), NULL, NULL);
}

static void erase(struct demo *demo)
{
	if (demo->drawn > 0)
		printf("\033[%dA\033[J", demo->drawn);
	demo->drawn = 0;
}

static const char *look(const struct demo *demo, const char *sequence)
{
	return demo->terminal ? sequence : "";
}

/* A full bar is one and a half times an even share, because some workers do more than others. */
static void draw_worker(const struct demo *demo, const struct gd_worker_stats *w)
{
	uint64_t share = w->completed * BAR * (uint64_t)demo->workers * 2 / (BLOCKS * 3);
	int length = share > BAR ? BAR : (int)share;

	printf("  GPU %-3d %-9s %s", w->gpu, gd_worker_state_name(w->state), look(demo, w->restarts ? YELLOW : GREEN));
	for (int i = 0; i < BAR; i++)
		printf("%s%s", i == length ? look(demo, GREY) : "", i < length ? "▇" : "·");
	printf("%s %3" PRIu64 " blocks%s\n", look(demo, PLAIN), w->completed, w->restarts ? ", by two workers" : "");
}

static void draw(struct demo *demo)
{
	putchar('\n');
	demo->drawn = 1;
	for (int slot = 0; slot < demo->workers; slot++) {
		struct gd_worker_stats w;
		if (gd_dispatcher_worker_stats(demo->dispatcher, slot, &w, sizeof(w)) < 0)
			break;
		draw_worker(demo, &w);
		demo->drawn++;
	}
	fflush(stdout);
}

/* Kills the worker that has just begun this block. */
static void kill_worker(struct demo *demo, const struct gd_event *e)
{
	struct gd_worker_stats w;
	if (gd_dispatcher_worker_stats(demo->dispatcher, e->slot, &w, sizeof(w)) < 0 || w.pid <= 0 ||
		kill((pid_t)w.pid, SIGKILL) < 0)
		return;
	demo->killed_pid = w.pid;
	demo->killed_slot = e->slot;
	demo->killed_block = e->id;
	erase(demo);
	printf("  %skill -9 %" PRId64 "%s: the worker of GPU %d dies in the middle of block %" PRIu64 "\n",
		look(demo, RED), w.pid, look(demo, PLAIN), e->gpu, e->id);
}

static void look_for_replacement(struct demo *demo)
{
	struct gd_worker_stats w;
	if (!demo->killed_pid || demo->replaced ||
		gd_dispatcher_worker_stats(demo->dispatcher, demo->killed_slot, &w, sizeof(w)) < 0)
		return;
	if (w.restarts == 0 || w.pid <= 0 || w.pid == demo->killed_pid)
		return;
	demo->replaced = true;
	erase(demo);
	printf("  a new worker is on GPU %d: pid %" PRId64 "\n", w.gpu, w.pid);
}

static int on_start(void *context, const struct gd_event *e)
{
	struct demo *demo = context;
	if (e->attempt > 1) {
		erase(demo);
		printf("  block %" PRIu64 " is counted again, on GPU %d\n", e->id, e->gpu);
	} else if (!demo->killed_pid && demo->done >= KILL_AFTER) {
		kill_worker(demo, e);
	}
	return 0;
}

static int on_success(void *context, const struct gd_event *e)
{
	struct demo *demo = context;
	uint32_t primes;

	memcpy(&primes, e->result.data, sizeof(primes));
	demo->primes += primes;
	demo->done++;
	/* The block was done just before its worker was killed: kill another worker. */
	if (demo->killed_pid && e->id == demo->killed_block && e->attempt == 1) {
		demo->killed_pid = 0;
		demo->replaced = false;
	}
	look_for_replacement(demo);
	return 0;
}

static int on_error(void *context, const struct gd_event *e)
{
	erase(context);
	printf("  block %" PRIu64 " on GPU %d: %s\n", e->id, e->gpu, e->message);
	return 0;
}

static void on_progress(void *context, const struct gd_stats *stats)
{
	struct demo *demo = context;
	demo->workers = (int)stats->workers;
	look_for_replacement(demo);
	if (demo->terminal) {
		erase(demo);
		draw(demo);
	}
}

static int report(struct demo *demo, const struct gd_stats *stats)
{
	bool right = demo->primes == EXPECTED && demo->done == BLOCKS;
	if (!demo->terminal)
		draw(demo);
	printf("\n  %" PRIu32 " primes below %d: %s.\n", demo->primes, BLOCKS * BLOCK,
		right ? "right; every block counted exactly once" : "WRONG");
	printf("  %" PRIu64 " blocks on %" PRIu64 " workers in %.1f s; workers replaced: %" PRIu64
	       ", blocks tried again: %" PRIu64 "\n",
		stats->completed, stats->workers, (double)(stats->end_ns - stats->start_ns) / 1e9, stats->restarts,
		stats->retries);
	return !right;
}

int main(int argc, char **argv)
{
	struct demo demo = {.terminal = isatty(STDOUT_FILENO)};
	struct gd_worker_ops worker = {.size = sizeof(worker), .process = count_primes};
	struct gd_options options = {
		.size = sizeof(options),
		.worker = &worker,
		.gpus = argc > 1 ? argv[1] : NULL,
		.retries = 2,
	};
	struct gd_run run = {
		.size = sizeof(run), .generator = next_block, .generator_context = &demo, .total_tasks = BLOCKS};
	struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = &demo,
		.on_success = on_success,
		.on_error = on_error,
		.on_task_start = on_start,
		.on_progress = on_progress,
	};
	struct gd_stats stats;
	struct gd_error err;

	int count = gd_gpu_count(options.gpus, NULL);
	if (!options.gpus && count == 0) {
		options.gpus = "sim:4";
		count = 4;
	}
	demo.workers = count > 0 ? count : 0;
	int r = gd_dispatcher_create(&options, &demo.dispatcher, &err);
	if (r == 0)
		r = gd_dispatcher_run(demo.dispatcher, &run, &callbacks, &err);
	if (r < 0)
		fprintf(stderr, "demo: %s\n", err.message);
	else {
		gd_dispatcher_stats(demo.dispatcher, &stats, sizeof(stats));
		r = report(&demo, &stats);
	}
	gd_dispatcher_destroy(demo.dispatcher);
	return r != 0;
}
