/* SPDX-License-Identifier: MIT */
/*
 * A dispatcher run with a panel. Uses only the public functions of the dispatcher.
 *
 * The panel has its own thread, because callbacks may be slow or may not be made for a
 * long time. A forked worker must not see threads, so the first call of the generator
 * creates the thread: by then the workers' warden has been forked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/interrupts.h"
#include "base/sized.h"
#include "shown/devices.h"
#include "shown/worker_row.h"
#include "view/panel/capture.h"
#include "view/panel/panel.h"
#include "view/panel/panel_guard.h"

SIZED_NO_TAIL(gd_show, leave_output);

#define NAMED_BYTES 4096 /* bytes of a task that name_task gets */
#define NAME_ROOM   512
/* Interval between two checks of the captured output, which arrives in bursts. */
#define PRINT_NS (50 * NS_PER_MS)

struct shown {
	struct gd_dispatcher *dispatcher;
	struct gd_run run; /* as given by the caller */
	struct gd_show show;
	struct panel_options options;
	int fd; /* the terminal, even while standard error is redirected; -1: the caller's descriptor is used */
	struct view_model *model;
	struct panel *panel;
	struct capture capture;

	pthread_t thread;
	bool has_thread;
	bool begun; /* the generator was called */
	int end_fd; /* the run has ended */

	/* Used by the thread, and after it has ended. */
	struct devices devices;
};

/* ---- Filling the model ---------------------------------------------------------------- */

static const char *name_task(struct shown *s, const struct gd_worker_stats *w, char name[NAME_ROOM])
{
	_Alignas(max_align_t) char bytes[NAMED_BYTES];
	uint64_t id = w->task_id;
	int64_t size = gd_dispatcher_worker_task(s->dispatcher, w->slot, bytes, sizeof(bytes), &id);
	name[0] = 0;
	if (size >= 0 && s->show.name_task) {
		struct gd_bytes task = {bytes, size < NAMED_BYTES ? (size_t)size : NAMED_BYTES};
		s->show.name_task(s->show.context, &task, name, NAME_ROOM);
		name[NAME_ROOM - 1] = 0;
	}
	if (!name[0])
		snprintf(name, NAME_ROOM, "task %" PRIu64, id);
	return name;
}

static void put_worker(struct shown *s, const struct gd_worker_stats *w)
{
	char name[NAME_ROOM];
	struct view_gpu g = worker_row(w);
	if (w->has_task)
		g.task = name_task(s, w, name);
	if (panel_mode(s->panel) == PANEL_LIVE) {
		devices_open(&s->devices, w->vendor);
		devices_fill_row(&s->devices, &g);
	}
	(void)view_put_gpu(s->model, &g); /* if out of memory, it stays as it was */
}

static const char *title_of(const struct shown *s)
{
	return s->show.title ? s->show.title : program_invocation_short_name;
}

/* Describes the effect of the next Ctrl-C. */
static const char *note_of(const struct shown *s)
{
	static const char *const notes[INTERRUPTS_PASSED] = {
		"Stopping after the running tasks. Ctrl-C again cancels them.",
		"Cancelling running tasks. Ctrl-C again kills the workers.",
		"Killing the workers. Ctrl-C again ends the program.",
	};
	int signals = s->run.leave_signals ? 0 : interrupts_count();
	return signals > 0 ? notes[signals - 1] : NULL;
}

static void put_stats(struct shown *s, const struct gd_stats *stats, uint64_t now_ns)
{
	struct view_work w = {.title = title_of(s),
		.total = stats->expected ? (int64_t)stats->expected : -1,
		.done = stats->completed,
		.failed = stats->failed + stats->timeouts,
		.timeouts = stats->timeouts,
		.cancelled = stats->cancelled,
		.running = stats->running,
		.waiting = stats->queued,
		.note = stats->end_ns ? NULL : note_of(s),
		.start_ns = stats->start_ns,
		.end_ns = stats->end_ns,
		.time_ns = stats->end_ns ? stats->end_ns : now_ns};
	(void)view_put_work(s->model, &w);
}

static void update(struct shown *s, const struct gd_stats *last)
{
	struct gd_stats stats;
	struct gd_worker_stats w;
	uint64_t now_ns = clock_now_ns();
	if (last)
		stats = *last;
	else
		gd_dispatcher_stats(s->dispatcher, &stats, sizeof(stats));
	put_stats(s, &stats, now_ns);
	for (int slot = 0; gd_dispatcher_worker_stats(s->dispatcher, slot, &w, sizeof(w)) == 0; slot++)
		put_worker(s, &w);
}

/* ---- The thread ----------------------------------------------------------------------------- */

/*
 * Lines stay in the pipe until they are drawn: if the program dies meanwhile, the guard
 * finds them there.
 */
static void *draw(void *argument)
{
	struct shown *s = argument;
	uint64_t print_ns = 0;
	bool guarded = panel_mode(s->panel) == PANEL_LIVE;
	struct pollfd fds[] = {{s->end_fd, POLLIN, 0}, {s->capture.fd, POLLIN, 0}, {-1, POLLIN, 0}};
	while (!fds[0].revents) {
		uint64_t now_ns = clock_now_ns();
		bool print = fds[1].revents && now_ns >= print_ns;
		if (print || now_ns >= panel_due_ns(s->panel)) {
			update(s, NULL);
			if (guarded && !panel_guard_enter())
				return NULL;
			capture_print(&s->capture, s->panel);
			panel_draw_now(s->panel, s->model, now_ns);
			if (guarded)
				panel_guard_exit();
			print_ns = now_ns + PRINT_NS;
		}
		/* While lines wait to be drawn, do not poll for more. */
		bool waits = fds[1].revents && !print;
		uint64_t next_ns = waits && print_ns < panel_due_ns(s->panel) ? print_ns : panel_due_ns(s->panel);
		short seen = waits ? fds[1].revents : 0;
		fds[1].fd = waits ? -1 : s->capture.fd;
		fds[2].fd = devices_fd(&s->devices);
		poll(fds, 3, clock_ms_until(next_ns, clock_now_ns()));
		fds[1].revents |= seen;
		if (fds[2].revents)
			devices_read(&s->devices);
	}
	return NULL;
}

static void start_thread(struct shown *s)
{
	sigset_t all, before;
	/* Signals are handled by the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	s->has_thread = pthread_create(&s->thread, NULL, draw, s) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int generate(void *context, struct gd_feed *feed)
{
	struct shown *s = context;
	if (!s->begun) {
		s->begun = true;
		if (s->panel)
			start_thread(s);
	}
	return s->run.generator(s->run.generator_context, feed);
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

static int begin(struct shown *s)
{
	static const enum panel_mode modes[] = {
		[GD_SHOW_MODE_AUTO] = PANEL_AUTO, [GD_SHOW_MODE_PLAIN] = PANEL_PLAIN, [GD_SHOW_MODE_OFF] = PANEL_OFF};
	s->capture = (struct capture){.fd = -1, .saved = {-1, -1, -1}};
	s->fd = s->end_fd = -1;
	if (s->show.mode == GD_SHOW_MODE_OFF)
		return 0;
	s->end_fd = eventfd(0, EFD_CLOEXEC);
	s->fd = fcntl(s->show.fd ? s->show.fd : STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	s->model = view_model_create(1);
	if (s->end_fd < 0 || s->fd < 0)
		return -errno;
	s->options = (struct panel_options){.fd = s->fd, .mode = modes[s->show.mode]};
	if (s->show.refresh_rate > 0)
		s->options.refresh_ns = (uint64_t)((double)NS_PER_S / s->show.refresh_rate);
	s->panel = s->model ? panel_create(&s->options) : NULL;
	if (!s->panel)
		return -ENOMEM;
	if (panel_mode(s->panel) != PANEL_LIVE || s->show.leave_output)
		return 0;
	int r = capture_begin(&s->capture, s->fd);
	panel_guard_drain(s->capture.fd);
	return r;
}

/* `stats`: those of the run, or NULL if it did not start. */
static void finish(struct shown *s, const struct gd_stats *stats)
{
	uint64_t one = 1;
	if (s->has_thread && write(s->end_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(s->thread, NULL);
	if (s->panel) {
		capture_print(&s->capture, s->panel);
		if (stats)
			update(s, stats);
		panel_destroy(s->panel, stats ? s->model : NULL, clock_now_ns());
	}
	capture_end(&s->capture);
	devices_close(&s->devices);
	view_model_destroy(s->model);
	closep(&s->fd);
	closep(&s->end_fd);
}

int gd_dispatcher_run_shown(struct gd_dispatcher *d, const struct gd_run *run, const struct gd_callbacks *callbacks,
	const struct gd_show *show, struct gd_error *err)
{
	struct shown s = {.dispatcher = d};
	struct gd_run wrapped;
	int r = sized_read(&s.run, sizeof(s.run), run, "gd_run", err);
	if (r >= 0 && show)
		r = sized_read(&s.show, sizeof(s.show), show, "gd_show", err);
	if (r < 0)
		return r;
	if ((unsigned)s.show.mode > GD_SHOW_MODE_OFF)
		return error_set(
			err, -EINVAL, "mode is %d, which is not a value of enum gd_show_mode", (int)s.show.mode);
	if (!s.run.generator)
		return gd_dispatcher_run(d, &s.run, callbacks, err); /* returns the error */
	wrapped = s.run;
	wrapped.generator = generate;
	wrapped.generator_context = &s;
	r = begin(&s);
	if (r < 0) {
		finish(&s, NULL);
		return error_set(err, r, "cannot show the run: %s", error_words(r));
	}
	r = gd_dispatcher_run(d, &wrapped, callbacks, err);
	struct gd_stats stats;
	gd_dispatcher_stats(d, &stats, sizeof(stats));
	finish(&s, s.begun ? &stats : NULL);
	return r;
}
