/* SPDX-License-Identifier: MIT */
/* Computes the squares of 0…99 with one worker per GPU, or with four simulated GPUs if there are no real ones. */
#include <gpu_dispatch.h>
#include <stdio.h>

/* In each worker: one task. Load a model in .setup, release it in .cleanup. */
static int square(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	long n = *(const long *)task->data, squared = n * n;
	return gd_worker_result(w, &squared, sizeof(squared));
}

/* In this program: emits the next task; returns 0 at the end. */
static int next_number(void *context, struct gd_feed *feed)
{
	long *next = context, n = (*next)++;
	return n < 100 ? gd_feed_emit(feed, &n, sizeof(n), NULL, NULL) : 0;
}

static int print_square(void *context, const struct gd_event *e)
{
	fprintf(context, "GPU %d: %ld² = %ld\n", e->gpu, *(const long *)e->task.data, *(const long *)e->result.data);
	return 0;
}

int main(void)
{
	long n = 0;
	struct gd_worker_ops worker = {.size = sizeof(worker), .process = square};
	struct gd_options options = {.size = sizeof(options), .worker = &worker};
	struct gd_run run = {.size = sizeof(run), .generator = next_number, .generator_context = &n};
	struct gd_callbacks callbacks = {.size = sizeof(callbacks), .context = stdout, .on_success = print_square};
	struct gd_dispatcher *d = NULL;
	struct gd_error err;
	if (gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:4";
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run(d, &run, &callbacks, &err);
	if (r < 0)
		fprintf(stderr, "squares: %s\n", err.message);
	gd_dispatcher_destroy(d);
	return r < 0;
}
