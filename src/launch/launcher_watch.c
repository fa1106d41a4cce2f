/* SPDX-License-Identifier: MIT */
/* Files that arrive during the run: they join the queue, and are set aside while they are being written. */
#include "launch/launcher_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/error.h"

#define ASIDE_NS    (500 * NS_PER_MS) /* between checks of files that are being written */
#define MOST_OTHERS 1000              /* files of other users per check; the next check continues with the others */

/* Files set aside get another turn, in which they are checked. */
static void retry_line(struct launch_watch *w, struct launch_line *line, size_t most)
{
	for (size_t n = 0; n < most && !launch_line_is_empty(line); n++) {
		size_t i = line->files[line->next];
		bool dropped = w->states[i] == WATCH_GONE;
		if (!dropped && watch_make_fresh(w, i) < 0)
			return; /* out of memory: retried */
		line->next++;
		w->total += !dropped;
	}
}

static void retry_aside(struct launch_watch *w, uint64_t now)
{
	if (now >= w->aside_at_ns) {
		w->aside_at_ns = now + ASIDE_NS;
		retry_line(w, &w->aside, SIZE_MAX);
	}
	if (now >= w->others_at_ns) {
		w->others_at_ns = now + ASIDE_NS;
		retry_line(w, &w->aside_of_others, MOST_OTHERS);
	}
}

static void queue_fresh(struct gd_launcher *l)
{
	struct launch_watch *w = l->watch;
	if (w->num_fresh == 0)
		return;
	int r = launcher_queue_files(l, w->fresh, w->num_fresh);
	if (r == -ENOMEM)
		return; /* retried */
	if (r < 0) {
		launcher_warn(l, "cannot distribute %zu new files: %s; any GPU may process them", w->num_fresh,
			error_words(r));
		if (launch_queue_add(&l->queue, w->fresh, NULL, w->num_fresh) < 0)
			return;
	}
	w->num_fresh = 0;
	w->unsorted = true;
}

static void sort_if_due(struct gd_launcher *l, uint64_t now)
{
	struct launch_watch *w = l->watch;
	if (!w->unsorted || now < w->sort_at_ns)
		return;
	w->unsorted = launcher_sort_rest(l) < 0;
	uint64_t end = clock_now_ns();
	w->sort_at_ns = end + (end - now) * WATCH_PART;
}

void launcher_watch_turn(struct gd_launcher *l)
{
	struct launch_watch *w = l->watch;
	if (!w || launcher_is_ending(l))
		return;
	uint64_t now = clock_now_ns();
	if (w->folders && folder_watch_read(w->folders, watch_take_name, l) < 0)
		folder_watch_set_stale(w->folders);
	watch_search_if_due(l, now);
	retry_aside(w, now);
	queue_fresh(l);
	sort_if_due(l, clock_now_ns());
	gd_balancer_expect(l->balancer, w->total, l->num_skipped);
}

int launcher_watch_fd(const struct gd_launcher *l)
{
	return l->watch && l->watch->folders ? folder_watch_fd(l->watch->folders) : -1;
}

bool launcher_watch_defer(struct gd_launcher *l, size_t i, int error)
{
	struct launch_watch *w = l->watch;
	if (!w || (error != -ENOENT && error != -EBUSY))
		return false;
	bool of_others = l->output_of[i].owner != 0;
	if (error == -EBUSY && launch_line_add(of_others ? &w->aside_of_others : &w->aside, i) < 0)
		return false;
	if (error == -ENOENT)
		launch_amount_remove(&l->total, l->todo[i]);
	/* A folder above it may have been renamed for a moment, which the kernel does not report: search again. */
	if (error == -ENOENT && w->folders)
		folder_watch_set_stale(w->folders);
	w->states[i] = error == -EBUSY ? WATCH_ASIDE : WATCH_GONE;
	w->total--;
	gd_balancer_expect(l->balancer, w->total, l->num_skipped);
	return true;
}

bool launcher_watch_has_dropped(const struct gd_launcher *l, size_t i)
{
	return l->watch && l->watch->states[i] == WATCH_GONE;
}

void launcher_watch_begun(struct gd_launcher *l, size_t i)
{
	if (l->watch)
		l->watch->states[i] = WATCH_BEGUN;
}

/* A file that was closed again while a worker had it may have changed. */
void launcher_watch_ended(struct gd_launcher *l, size_t i)
{
	struct launch_watch *w = l->watch;
	if (!w)
		return;
	bool again = w->states[i] == WATCH_BEGUN_AGAIN;
	struct gd_found f;
	uid_t owner;
	w->states[i] = WATCH_OVER;
	if (again && watch_look_at(l, l->todo[i]->path, &f, &owner) == 1 && watch_consider(l, &f, owner) < 0 &&
		w->folders)
		folder_watch_set_stale(w->folders);
}

static int know_files(struct gd_launcher *l)
{
	struct launch_watch *w = l->watch;
	for (size_t i = 0; i < l->num_todo; i++)
		if (!path_map_put(&w->known, l->todo[i]->path, i) || watch_set_state(w, i, WATCH_WAITING) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < l->files->count; i++)
		if (!path_map_put(&w->known, l->files->files[i]->path, WATCH_SKIPPED))
			return -ENOMEM;
	w->total = l->files->count;
	return 0;
}

int launcher_watch_open(struct gd_launcher *l)
{
	l->watch = calloc(1, sizeof(*l->watch));
	if (!l->watch)
		return -ENOMEM;
	struct stat in, out;
	l->watch->root_is_output = fstat(l->input_fd, &in) == 0 && fstat(l->output_fd, &out) == 0 &&
				   in.st_dev == out.st_dev && in.st_ino == out.st_ino;
	int r = find_patterns_init(&l->watch->patterns, l->options.patterns, l->options.num_patterns, NULL);
	return r < 0 ? r : know_files(l);
}

void launcher_watch_close(struct gd_launcher *l)
{
	struct launch_watch *w = l->watch;
	if (!w)
		return;
	folder_watch_close(w->folders);
	find_patterns_finish(&w->patterns);
	path_map_finish(&w->known);
	path_map_finish(&w->said);
	arena_finish(&w->arena);
	free(w->states);
	free(w->fresh);
	free(w->aside.files);
	free(w->aside_of_others.files);
	free(w);
	l->watch = NULL;
}
