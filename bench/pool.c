/* SPDX-License-Identifier: MIT */
/*
 * The cost of the dispatcher: tasks per second and round trips through the public API with real callbacks, compared
 * with the same traffic over its bare rings, a bare futex and memcpy. All in one run, because on a busy machine only
 * ratios are meaningful.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "base/clock.h"
#include "compare.h"
#include "gpu_dispatch.h"

struct bench {
	int workers;
	size_t payload;
	uint64_t tasks;
	bool json;
	bool compare;
	char *bytes;
	uint64_t sent;
	uint64_t ended;
	uint64_t first_ns; /* when the first task began */
};

static int echo(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	void *result = gd_worker_result_reserve(w, task->size);
	if (!result)
		return -1;
	memcpy(result, task->data, task->size);
	return 0;
}

static int pin_worker(struct gd_worker *w, void **ret_state)
{
	(void)w;
	(void)ret_state;
	pin(1);
	return 0;
}

static const struct gd_worker_ops echo_ops = {.size = sizeof(struct gd_worker_ops), .process = echo};
static const struct gd_worker_ops pinned_ops = {
	.size = sizeof(struct gd_worker_ops), .setup = pin_worker, .process = echo};

static int generate(void *context, struct gd_feed *feed)
{
	struct bench *b = context;
	if (b->sent == b->tasks)
		return 0;
	b->sent++;
	void *to = gd_feed_reserve(feed, b->payload, NULL, NULL);
	if (!to)
		return -1;
	memcpy(to, b->bytes, b->payload);
	return 1;
}

static int generate_small(void *context, struct gd_feed *feed)
{
	struct bench *b = context;
	if (b->sent == b->tasks)
		return 0;
	b->sent++;
	return gd_feed_emit(feed, b->bytes, b->payload, NULL, NULL) < 0 ? -1 : 1;
}

static int count(void *context, const struct gd_event *event)
{
	struct bench *b = context;
	if (b->ended++ == 0)
		b->first_ns = event->started_ns;
	return 0;
}

static int fail(void *context, const struct gd_event *event)
{
	(void)context;
	errx(1, "task %llu: %s", (unsigned long long)event->id, event->message);
}

static struct gd_options options(struct bench *b, char *spec, size_t size)
{
	snprintf(spec, size, "sim:%d", b->workers);
	return (struct gd_options){
		.size = sizeof(struct gd_options),
		.worker = &echo_ops,
		.gpus = spec,
	};
}

static struct gd_callbacks callbacks(struct bench *b)
{
	return (struct gd_callbacks){
		.size = sizeof(struct gd_callbacks), .context = b, .on_success = count, .on_error = fail};
}

/* A whole run; returns tasks per second, and the time until the first task began. */
static double throughput(struct bench *b, bool is_inline, double *ret_startup_ms)
{
	char spec[32];
	struct gd_options o = options(b, spec, sizeof(spec));
	struct gd_error err = {0};
	struct gd_dispatcher *d;
	if (gd_dispatcher_create(&o, &d, &err) < 0)
		errx(1, "%s", err.message);
	struct gd_callbacks called = callbacks(b);
	struct gd_run run = {
		.size = sizeof(run),
		.generator = b->payload > 4096 ? generate : generate_small,
		.generator_context = b,
		.inline_generator = is_inline,
	};
	b->sent = b->ended = 0;
	uint64_t start = clock_now_ns();
	if (gd_dispatcher_run(d, &run, &called, &err) < 0)
		errx(1, "%s", err.message);
	double seconds = (double)(clock_now_ns() - start) / NS_PER_S;
	if (b->ended != b->tasks)
		errx(1, "%llu tasks ended, not %llu", (unsigned long long)b->ended, (unsigned long long)b->tasks);
	*ret_startup_ms = (double)(b->first_ns - start) / NS_PER_MS;
	gd_dispatcher_destroy(d);
	return (double)b->tasks / seconds;
}

/* One task in flight at a time. */
static void latency(struct bench *b, double *ret_p50, double *ret_p99)
{
	enum { ROUNDS = 20000, WARM_UP = 200 };
	char spec[32];
	struct gd_options o = options(b, spec, sizeof(spec));
	struct gd_error err = {0};
	o.worker = &pinned_ops;
	struct gd_callbacks called = callbacks(b);
	struct gd_pool *p;
	pin(0);
	if (gd_pool_open(&o, &called, &p, &err) < 0)
		errx(1, "%s", err.message);
	double *took = calloc(ROUNDS, sizeof(*took));
	if (!took)
		errx(1, "out of memory");
	for (int i = -WARM_UP; i < ROUNDS; i++) {
		uint64_t start = clock_now_ns();
		if (gd_pool_submit(p, b->bytes, b->payload, NULL, NULL, NULL) < 0)
			errx(1, "submit");
		while (gd_pool_outstanding(p) > 0)
			if (gd_pool_poll(p, -1, 0) < 0)
				errx(1, "poll");
		if (i >= 0)
			took[i] = (double)(clock_now_ns() - start) / 1000;
	}
	*ret_p50 = percentile(took, ROUNDS, 0.5);
	*ret_p99 = percentile(took, ROUNDS, 0.99);
	free(took);
	gd_pool_close(p, NULL, 0, NULL);
	pin(-1);
}

static void run_with(void *context, int workers)
{
	struct bench *b = context;
	double startup_ms;
	b->workers = workers;
	throughput(b, true, &startup_ms);
}

static void parse(struct bench *b, int argc, char **argv)
{
	static const struct option longs[] = {
		{"workers", required_argument, NULL, 'w'},
		{"payload", required_argument, NULL, 'p'},
		{"tasks", required_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},
		{"compare", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;
	while ((c = getopt_long(argc, argv, "w:p:n:jch", longs, NULL)) != -1) {
		switch (c) {
		case 'w':
			b->workers = atoi(optarg);
			break;
		case 'p':
			b->payload = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			b->tasks = strtoull(optarg, NULL, 10);
			break;
		case 'j':
			b->json = true;
			break;
		case 'c':
			b->compare = true;
			break;
		default:
			puts("usage: pool [--workers W] [--payload BYTES] [--tasks N] [--json]\n"
			     "       pool --compare [--payload BYTES] [--tasks N]");
			exit(c == 'h' ? 0 : 2);
		}
	}
	if (b->workers < 1 || b->tasks < 1)
		errx(2, "--workers and --tasks take at least 1");
}

struct figures {
	double tasks_per_s, feeder_tasks_per_s, ring_tasks_per_s;
	double p50, p99, futex_p50, futex_p99;
	double startup_ms, memcpy_bytes_per_s;
	long max_rss_kb;
};

static void print_json(const struct bench *b, const struct figures *f)
{
	printf("{\"workers\": %d, \"payload_bytes\": %zu, \"tasks\": %llu, \"tasks_per_s\": %.0f, "
	       "\"feeder_tasks_per_s\": %.0f, \"ring_tasks_per_s\": %.0f, \"ring_ratio\": %.3f, "
	       "\"latency_p50_us\": %.2f, \"latency_p99_us\": %.2f, \"futex_p50_us\": %.2f, \"futex_p99_us\": %.2f, "
	       "\"startup_ms\": %.2f, \"bytes_per_s\": %.0f, \"memcpy_bytes_per_s\": %.0f, \"max_rss_kb\": %ld}\n",
		b->workers, b->payload, (unsigned long long)b->tasks, f->tasks_per_s, f->feeder_tasks_per_s,
		f->ring_tasks_per_s, f->tasks_per_s / f->ring_tasks_per_s, f->p50, f->p99, f->futex_p50, f->futex_p99,
		f->startup_ms, 2 * (double)b->payload * f->tasks_per_s, f->memcpy_bytes_per_s, f->max_rss_kb);
}

static void print_text(const struct bench *b, const struct figures *f)
{
	printf("%d workers, %zu bytes, %llu tasks\n", b->workers, b->payload, (unsigned long long)b->tasks);
	printf("  throughput     %12.0f tasks/s   %.2f of the bare rings' %.0f; with a feeder thread %.0f\n",
		f->tasks_per_s, f->tasks_per_s / f->ring_tasks_per_s, f->ring_tasks_per_s, f->feeder_tasks_per_s);
	printf("  round trip p50 %12.2f µs        %.2f of the bare futex's %.2f; p99 %.2f (%.2f)\n", f->p50,
		f->p50 / f->futex_p50, f->futex_p50, f->p99, f->futex_p99);
	printf("  bandwidth      %12.2f GB/s      %.2f of memcpy's %.2f\n",
		2 * (double)b->payload * f->tasks_per_s / 1e9,
		2 * (double)b->payload * f->tasks_per_s / f->memcpy_bytes_per_s, f->memcpy_bytes_per_s / 1e9);
	printf("  first task after %10.2f ms; at most %ld kB of memory\n", f->startup_ms, f->max_rss_kb);
}

/* Not getrusage(): its value survives exec and could be that of the parent process. */
static long peak_memory_kb(void)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

int main(int argc, char **argv)
{
	struct bench b = {.workers = 1, .payload = 100, .tasks = 2000000};
	parse(&b, argc, argv);
	b.bytes = calloc(1, b.payload + 1);
	if (!b.bytes)
		errx(1, "out of memory");
	if (b.compare) {
		compare_print(&(struct comparison){
			.payload = b.payload, .tasks = b.tasks, .pairs = 5, .run_pool = run_with, .context = &b});
		free(b.bytes);
		return 0;
	}
	struct figures f = {0};
	double startup;
	f.tasks_per_s = throughput(&b, true, &f.startup_ms);
	f.max_rss_kb = peak_memory_kb();
	f.ring_tasks_per_s = bare_rings(b.workers, b.payload, b.tasks);
	f.feeder_tasks_per_s = throughput(&b, false, &startup);
	latency(&b, &f.p50, &f.p99);
	bare_futex(20000, &f.futex_p50, &f.futex_p99);
	f.memcpy_bytes_per_s = bare_memcpy(b.payload > 4096 ? b.payload : 1 << 20);
	if (b.json)
		print_json(&b, &f);
	else
		print_text(&b, &f);
	free(b.bytes);
	return 0;
}
