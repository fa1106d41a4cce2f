/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_end.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/loop.h"
#include "base/units.h"
#include "queue/runner/allocation_end.h"
#include "queue/runner/runner_begin.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/schedule/scheduler.h"

/* In the last ten minutes ask every minute, before that every five minutes. */
#define NEAR_MS  (10 * 60 * 1000)
#define NEAR_NS  (60 * NS_PER_S)
#define OFTEN_NS (300 * NS_PER_S)
/* An answer is fresh for this long. */
#define FRESH_NS (2 * NS_PER_S)
/* A smaller difference is not a change of the limit: Slurm reports whole seconds. */
#define SAME_MS 5000

static void say_change(struct runner *r, const struct scheduler_settings *s, int64_t left_ms)
{
	char left[UNITS_ROOM];
	if (r->options.quiet)
		return;
	runner_say(r, "gpuq: the time limit of %s was changed; time left: %s\n", s->end_whose,
		left_ms == 0 ? "no limit" : units_format_duration((uint64_t)left_ms, left));
}

static void take_answer(struct runner *r)
{
	struct runner_end *e = &r->end;
	const struct scheduler_settings *s = scheduler_settings(r->deciding.scheduler);
	e->text[e->have] = '\0';
	int64_t left_ms = strncmp(e->text, "UNLIMITED", 9) == 0 ? 0 : allocation_end_parse_left(e->text);
	if (left_ms < 0 || !s->end_ms)
		return; /* no answer: the known end stays */
	int64_t end_ms = left_ms ? date_now_ms() + left_ms : 0;
	if (end_ms >= s->end_ms - SAME_MS && end_ms <= s->end_ms + SAME_MS)
		return;
	say_change(r, s, left_ms);
	scheduler_set_end(r->deciding.scheduler, end_ms);
	runner_begin_look(r);
	r->deciding.must_place = true;
}

static void stop_asking(struct runner *r)
{
	struct runner_end *e = &r->end;
	loop_remove(e->source);
	e->source = NULL;
	close_fd(&e->fd);
	/* The process has closed its output, so it is about to exit, or has been reaped already. */
	while (e->pid > 0 && waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
		;
	e->pid = 0;
	e->answered_ns = clock_now_ns();
}

static void on_answer(void *context, uint32_t events)
{
	struct runner *r = context;
	struct runner_end *e = &r->end;
	(void)events;
	ssize_t n = read(e->fd, e->text + e->have, sizeof(e->text) - 1 - e->have);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		e->have += (size_t)n;
		return;
	}
	stop_asking(r);
	take_answer(r);
}

static void ask(struct runner *r)
{
	struct runner_end *e = &r->end;
	e->have = 0;
	e->fd = -1;
	/* If Slurm cannot be asked, the known end stays; a later call tries again. */
	if (allocation_end_ask(&e->pid, &e->fd) < 0) {
		e->answered_ns = clock_now_ns();
		return;
	}
	if (loop_add(r->loop, e->fd, EPOLLIN, on_answer, r, &e->source) < 0)
		stop_asking(r);
}

static bool matters(const struct runner *r, bool *ret_near)
{
	int64_t end_ms = scheduler_settings(r->deciding.scheduler)->end_ms;
	*ret_near = end_ms && end_ms - date_now_ms() < NEAR_MS;
	return end_ms && (*ret_near || scheduler_num_late(r->deciding.scheduler) > 0);
}

void runner_end_look(struct runner *r)
{
	bool near;
	uint64_t now = clock_now_ns();
	if (r->end.fd >= 0 || now < r->end.next_ns || r->interrupts || r->leaving || !matters(r, &near))
		return;
	r->end.next_ns = now + (near ? NEAR_NS : OFTEN_NS);
	ask(r);
}

bool runner_end_must_wait(struct runner *r)
{
	if (r->interrupts || r->leaving || scheduler_num_late(r->deciding.scheduler) == 0 ||
		!scheduler_settings(r->deciding.scheduler)->end_ms)
		return false;
	if (r->end.fd < 0 && (!r->end.answered_ns || clock_now_ns() > r->end.answered_ns + FRESH_NS))
		ask(r);
	return r->end.fd >= 0;
}

void runner_end_close(struct runner *r)
{
	if (r->end.fd >= 0)
		stop_asking(r);
}
