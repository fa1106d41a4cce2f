/* SPDX-License-Identifier: MIT */
/*
 * Shows a run in a panel, or as plain lines without a terminal. Each worker "renders"
 * frames of a film; some frames fail, and some workers print.
 *
 *     shown [FRAMES [MILLISECONDS]]
 *
 * Press Ctrl-C once to stop after the running frames, twice to cancel them.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <gpu_dispatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct film {
	unsigned frames;
	unsigned next;
	unsigned frame_ms;
};

struct frame {
	unsigned number;
	unsigned ms;
};

/* In each worker: */
static int render(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	const struct frame *f = task->data;
	(void)state;
	for (unsigned ms = 0; ms < f->ms && !gd_worker_cancelled(w, 0); ms++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	if (f->number % 50 == 49)
		return gd_worker_fail(w, -EIO, "frame %u: texture not found", f->number);
	if (f->number % 25 == 7)
		printf("GPU %d: frame %u has only a few samples\n", gd_worker_gpu(w), f->number);
	return 0; /* without gd_worker_result() the result is empty */
}

/* In this program: */
static int next_frame(void *context, struct gd_feed *feed)
{
	struct film *film = context;
	if (film->next == film->frames)
		return 0;
	struct frame f = {.number = film->next, .ms = film->frame_ms * (1 + film->next * 7 % 5) / 3};
	film->next++;
	return gd_feed_emit(feed, &f, sizeof(f), NULL, NULL);
}

static int count_frame(void *context, const struct gd_event *e)
{
	(void)e;
	++*(unsigned *)context;
	return 0;
}

/* Appears above the panel. */
static int print_failure(void *context, const struct gd_event *e)
{
	(void)context;
	fprintf(stderr, "GPU %d: %s\n", e->gpu, e->message);
	return 0;
}

/* The name of a task in the panel. */
static void name_frame(void *context, const struct gd_bytes *task, char *name, size_t room)
{
	(void)context;
	snprintf(name, room, "frame_%05u.exr", ((const struct frame *)task->data)->number);
}

int main(int argc, char **argv)
{
	struct film film = {.frames = argc > 1 ? (unsigned)atoi(argv[1]) : 200};
	film.frame_ms = argc > 2 ? (unsigned)atoi(argv[2]) : 150;
	unsigned rendered = 0;
	struct gd_worker_ops worker = {.size = sizeof(worker), .process = render};
	struct gd_options options = {.size = sizeof(options), .worker = &worker};
	struct gd_run run = {
		.size = sizeof(run), .generator = next_frame, .generator_context = &film, .total_tasks = film.frames};
	struct gd_callbacks callbacks = {
		.size = sizeof(callbacks), .context = &rendered, .on_success = count_frame, .on_error = print_failure};
	struct gd_show show = {.size = sizeof(show), .title = "render", .name_task = name_frame};
	struct gd_dispatcher *d = NULL;
	struct gd_stats stats = {0};
	struct gd_worker_stats worker_stats;
	struct gd_error err;

	if (gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:4";
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run_shown(d, &run, &callbacks, &show, &err);
	if (r < 0)
		fprintf(stderr, "shown: %s\n", err.message);
	if (d)
		gd_dispatcher_stats(d, &stats, sizeof(stats));
	printf("%u of %u frames, %d failed, %d cancelled\n", rendered, film.frames, (int)stats.failed,
		(int)stats.cancelled);
	for (int i = 0; d && gd_dispatcher_worker_stats(d, i, &worker_stats, sizeof(worker_stats)) == 0; i++)
		printf("GPU %d: %s, %d frames\n", worker_stats.gpu, gd_worker_state_name(worker_stats.state),
			(int)worker_stats.completed);
	gd_dispatcher_destroy(d);
	return r < 0;
}
