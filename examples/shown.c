/* SPDX-License-Identifier: MIT */
/*
 * A run with a panel of it: frames of a film are "rendered", one worker per GPU, each
 * for a while; some fail, and some workers print. On a pipe: plain lines.
 *
 *     shown [FRAMES [MILLISECONDS]]
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

static void pass(unsigned ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* In each worker. */
static int render(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	const struct frame *f = task->data;
	(void)state;
	pass(f->ms);
	if (f->number % 50 == 49)
		return gd_worker_fail(w, -EIO, "frame %u: texture not found", f->number);
	if (f->number % 25 == 7)
		printf("GPU %d: frame %u has only few samples\n", gd_worker_gpu(w), f->number);
	return gd_worker_result(w, NULL, 0);
}

/* In this program. */
static int next_frame(void *context, struct gd_feed *feed)
{
	struct film *film = context;
	if (film->next == film->frames)
		return 0;
	struct frame f = {.number = film->next, .ms = film->frame_ms * (1 + film->next * 7 % 5) / 3};
	film->next++;
	int r = gd_feed_emit(feed, &f, sizeof(f), NULL, NULL);
	return r < 0 ? r : 1;
}

static int take(void *context, const struct gd_event *e)
{
	(void)context;
	(void)e;
	return 0;
}

/* For the panel: what a task is called. */
static void name_frame(void *context, const struct gd_bytes *task, char *name, size_t room)
{
	(void)context;
	snprintf(name, room, "frame_%05u.exr", ((const struct frame *)task->data)->number);
}

int main(int argc, char **argv)
{
	struct film film = {.frames = argc > 1 ? (unsigned)atoi(argv[1]) : 200};
	film.frame_ms = argc > 2 ? (unsigned)atoi(argv[2]) : 150;
	struct gd_worker_ops worker = {.size = sizeof(struct gd_worker_ops), .process = render};
	struct gd_options options = {.size = sizeof(options), .worker = &worker};
	struct gd_run run = {
		.size = sizeof(run), .generator = next_frame, .generator_context = &film, .total_tasks = film.frames};
	struct gd_callbacks callbacks = {.size = sizeof(callbacks), .on_success = take};
	struct gd_show show = {.size = sizeof(show), .title = "render", .name_task = name_frame};
	struct gd_dispatcher *d = NULL;
	struct gd_stats stats;
	struct gd_worker_stats worker_stats;
	struct gd_error err;

	if (gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:4";
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run_shown(d, &run, &callbacks, &show, &err);
	if (r < 0) {
		fprintf(stderr, "shown: %s\n", err.message);
	} else {
		gd_dispatcher_stats(d, &stats, sizeof(stats));
		printf("%d of %d frames, %d failed\n", (int)stats.completed, (int)stats.submitted, (int)stats.failed);
	}
	for (int i = 0; d && gd_dispatcher_worker_stats(d, i, &worker_stats, sizeof(worker_stats)) == 0; i++)
		printf("GPU %d: %s, %d frames\n", worker_stats.gpu, gd_worker_state_name(worker_stats.state),
			(int)worker_stats.completed);
	gd_dispatcher_destroy(d);
	return r < 0;
}
