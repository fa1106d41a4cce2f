/* SPDX-License-Identifier: MIT */
/* Squares of 0…99, one worker process per GPU; four simulated GPUs where there is none. */
#include <gpu_dispatch.h>
#include <stdio.h>

/* In each worker: one task. Load a model in .setup, release it in .cleanup. */
static int square(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	long n = *(const long *)task->data;
	n *= n;
	return gd_worker_result(w, &n, sizeof(n));
}

/* In this program: the next task, until there is none. */
static int next_number(void *context, struct gd_feed *feed)
{
	long *n = context;
	if (*n == 100)
		return 0;
	int r = gd_feed_emit(feed, n, sizeof(*n), NULL);
	++*n;
	return r < 0 ? r : 1;
}

static int print_square(void *context, const struct gd_event *e)
{
	(void)context;
	printf("GPU %d: %ld² = %ld\n", e->gpu, *(const long *)e->task.data, *(const long *)e->result.data);
	return 0;
}

int main(void)
{
	long n = 0;
	struct gd_worker_ops worker = {.process = square};
	struct gd_options options = {.size = sizeof(options), .worker = &worker, .on_success = print_square};
	struct gd_run source = {.size = sizeof(source), .generator = next_number, .context = &n};
	struct gd_dispatcher *d = NULL;
	struct gd_stats stats;
	struct gd_error err;

	if (gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:4";
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run(d, &source, &stats, &err);
	if (r < 0)
		fprintf(stderr, "squares: %s\n", err.message);
	else
		printf("%d tasks on %zu workers\n", (int)stats.completed, stats.workers);
	gd_dispatcher_destroy(d);
	return r < 0;
}
