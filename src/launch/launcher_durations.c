/* SPDX-License-Identifier: MIT */
/*
 * Durations of files. A thread reads them, because other users may have written a file so that reading it takes long;
 * the loop never waits for it. If a file ends before its duration is known, the duration is added to the statistics
 * later.
 */
#include <poll.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "launch/balancer.h"
#include "launch/launcher_private.h"

#define SORT_AGAIN_MIN 16
#define AWAIT_NS       (5 * NS_PER_S) /* at the end, for durations of files that have ended */
#define LOOK_MS        5

void launcher_set_seconds(struct gd_launcher *l, size_t i, double seconds)
{
	launch_amount_remove(&l->total, l->todo[i]);
	found_set_seconds(l->todo[i], seconds);
	launch_amount_add(&l->total, l->todo[i]);
}

static bool is_being_read(const struct gd_launcher *l, size_t i)
{
	return l->durations && i >= l->durations_first && i < l->durations_end;
}

void launcher_learn_seconds(struct gd_launcher *l, size_t i, double told)
{
	const struct gd_found *f = l->todo[i];
	double seconds = told >= 0 ? told : found_has_seconds(f) ? f->seconds : -1;
	if (seconds >= 0 && is_being_read(l, i))
		durations_known(l->durations, i - l->durations_first, seconds);
	else if (is_being_read(l, i))
		seconds = durations_get(l->durations, i - l->durations_first);
	if (seconds >= 0 && !(found_has_seconds(f) && seconds == f->seconds))
		launcher_set_seconds(l, i, seconds);
}

/* ---- Files that end before their duration is known ----------------------------- */

void launcher_note_early(struct gd_launcher *l, size_t i, const struct launcher_early *early)
{
	bool waits = i >= l->durations_end ||
		     (is_being_read(l, i) && durations_get(l->durations, i - l->durations_first) < -1);
	if (!l->options.seconds || found_has_seconds(l->todo[i]) || !waits)
		return;
	/* If out of memory, the duration stays unknown. */
	if (array_reserve(l->early, &l->early_capacity, i + 1) < 0)
		return;
	for (; l->num_early <= i; l->num_early++)
		l->early[l->num_early] = (struct launcher_early){0};
	l->early[i] = *early;
	l->early[i].ended = true;
	l->early_waiting++;
}

/* The duration of a file was read; negative: it is unknown. */
static void take_duration(struct gd_launcher *l, size_t i, double seconds)
{
	bool early = i < l->num_early && l->early[i].ended, known = seconds >= 0 && !found_has_seconds(l->todo[i]);
	if (early) {
		l->early[i].ended = false;
		l->early_waiting--;
	}
	if (!known)
		return;
	if (early)
		launch_amount_remove(&l->done, l->todo[i]);
	launcher_set_seconds(l, i, seconds);
	if (early)
		launch_amount_add(&l->done, l->todo[i]);
	if (early && l->early[i].done)
		balancer_learn_seconds(l->balancer, l->early[i].gpu, seconds, l->early[i].processing_seconds);
}

/* ---- Reading ------------------------------------------------------------------- */

/* Starts reading the next files when the previous ones are done. */
static void read_durations(struct gd_launcher *l)
{
	const struct gd_launch_options *o = &l->options;
	size_t count = l->num_todo - l->durations_end;
	if (!o->seconds || count == 0 || (l->durations && !durations_is_over(l->durations)))
		return;
	const struct gd_found *const *files = (const struct gd_found *const *)l->todo + l->durations_end;
	cleanup_(freep) size_t *order = calloc(count, sizeof(*order));
	durations_stop(l->durations);
	l->durations = NULL;
	l->durations_taken = l->durations_sorted = 0;
	l->durations_first = l->durations_end;
	l->durations_end = l->num_todo;
	if (order && gd_balance_order(files, count, o->balance, order) == 0 &&
		durations_start(l->files->folder, files, order, count, o->seconds, o->context, &l->durations) < 0)
		l->durations = NULL; /* fall back to the sizes */
}

static void take_durations(struct gd_launcher *l)
{
	size_t asked = durations_asked(l->durations);
	for (; l->durations_taken < asked; l->durations_taken++) {
		size_t k = durations_file(l->durations, l->durations_taken);
		take_duration(l, l->durations_first + k, durations_get(l->durations, k));
	}
}

/* Sorts again whenever the number of known durations has doubled: only a few times in total. */
void launcher_take_durations(struct gd_launcher *l)
{
	if (l->durations) {
		take_durations(l);
		size_t asked = l->durations_taken;
		bool more = asked >= 2 * l->durations_sorted + SORT_AGAIN_MIN ||
			    (durations_is_over(l->durations) && l->durations_sorted < asked);
		bool by_length = l->options.balance == GD_BALANCE_LONGEST_FIRST;
		if (by_length && more && launch_queue_left(&l->queue) > 0 && launcher_sort_rest(l) == 0)
			l->durations_sorted = asked;
	}
	read_durations(l); /* a thread: the workers are forked already */
}

static bool is_reading(const struct gd_launcher *l)
{
	return l->durations &&
	       (l->durations_end < l->num_todo || l->durations_taken < l->durations_end - l->durations_first);
}

void launcher_await_durations(struct gd_launcher *l)
{
	uint64_t end_ns = clock_now_ns() + AWAIT_NS;
	while (l->early_waiting > 0 && !launcher_is_ending(l) && atomic_load(&l->stops) == 0) {
		launcher_take_durations(l);
		if (!is_reading(l) || clock_now_ns() >= end_ns)
			return;
		struct pollfd stop = {.fd = l->stop_fd, .events = POLLIN};
		(void)poll(&stop, 1, LOOK_MS);
	}
}
