/* SPDX-License-Identifier: MIT */
/* Files to workers: few ahead, in an order that gets better as durations become known. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "launch/file_task.h"
#include "launch/find.h"
#include "launch/launcher_private.h"

#define AHEAD_SECONDS  0.02 /* work that waits in the pool, per worker */
#define AHEAD_MAX      256  /* files */
#define SORT_AGAIN_MIN 16

/* The file as it is now: what changes after this makes its result old. -EPERM: see find_link_objection(). */
static int look_at_file(struct gd_launcher *l, size_t i)
{
	struct gd_found *f = l->todo[i];
	struct stat st;
	/* The folder was listed long ago, perhaps. */
	if (find_link_objection(l->input_fd, f->path))
		return -EPERM;
	if (fstatat(l->input_fd, f->path, &st, 0) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!(st.st_mode & S_IROTH) && faccessat(l->input_fd, f->path, R_OK, AT_EACCESS) < 0)
		return -errno;
	if ((uint64_t)st.st_size != f->size_bytes) {
		launch_amount_remove(&l->total, f);
		f->size_bytes = (uint64_t)st.st_size;
		launch_amount_add(&l->total, f);
	}
	f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

static int send_file(struct gd_launcher *l, size_t i, const char *path, const char *output)
{
	const struct gd_found *f = l->todo[i];
	size_t length;
	const char *name = outputs_stem(f->path, &length);
	char stem[NAME_MAX + 1];
	snprintf(stem, sizeof(stem), "%.*s", (int)length, name);
	struct gd_file file = {
		.size = sizeof(file),
		.path = path,
		.output_dir = output,
		.stem = stem,
		.size_bytes = f->size_bytes,
		.known = f->known & GD_KNOWN_SECONDS,
		.seconds = f->seconds,
	};
	struct gd_draft *draft;
	void *data;
	size_t size = file_task_size(&file);
	static const struct gd_task_options nowait = {.size = sizeof(nowait), .nowait = 1};
	int r = gd_pool_reserve(l->pool, size, &nowait, &draft, &data);
	if (r < 0)
		return r;
	file_task_write(&file, data);
	uint64_t id;
	r = gd_draft_commit(draft, size, (void *)(uintptr_t)i, &id);
	if (r == 0 && id < l->num_todo) {
		l->submitted[id] = i;
		l->num_submitted = id + 1;
	}
	return r;
}

/* 1 where it is on its way or has failed, 0 where there is no room, -ENODEV where there is no worker. */
static int submit(struct gd_launcher *l, size_t i)
{
	cleanup_(text_finish) struct text path = {0}, output = {0}, words = {0};
	text_appendf(&path, "%s/%s", l->files->folder, l->todo[i]->path);
	text_appendf(&output, "%s/%s", l->output_root, l->output_of[i]);
	int r = text_error(&path) || text_error(&output) ? -ENOMEM : look_at_file(l, i);
	if (r < 0) {
		text_append_string(&words, r == -ENOENT  ? "the file has vanished"
					   : r == -EPERM ? "it has become a symbolic link of another user"
							 : error_words(r));
	} else {
		const char *objection;
		r = outputs_make_result_folder(l->output_fd, l->output_of[i], l->options.trust_output_dir, &objection);
		if (r < 0)
			text_appendf(&words, "making its output folder '%s': %s%s", text_string(&output),
				objection ? "a folder on the way " : "", objection ? objection : error_words(r));
	}
	if (r == 0) {
		r = send_file(l, i, text_string(&path), text_string(&output));
		if (r == -EAGAIN || r == -ESHUTDOWN || r == -ENODEV)
			return r == -ENODEV ? r : 0;
		if (r < 0)
			text_appendf(&words, "handing it to a worker: %s", error_words(r));
	}
	if (r < 0) {
		launcher_put_result(l, i, NULL, text_string(&words));
		launcher_check_failures(l);
	}
	return 1;
}

/* Few, so that what is learned of durations still counts; enough for workers never to wait. */
static size_t window(const struct gd_launcher *l)
{
	struct gd_launch_summary s;
	gd_balancer_summary(l->balancer, &s, sizeof(s));
	double ahead = 1;
	if (s.files_done > 0)
		ahead = AHEAD_SECONDS * (double)s.files_done / (s.processing_seconds + 1e-9);
	ahead = ahead < 1 ? 1 : ahead > AHEAD_MAX ? AHEAD_MAX : ahead;
	return l->num_workers * (1 + (size_t)ahead);
}

void launcher_feed(struct gd_launcher *l)
{
	size_t most = window(l);
	while (!launcher_is_ending(l) && l->next < l->num_todo && gd_pool_outstanding(l->pool) < most) {
		int r = submit(l, l->order[l->next]);
		if (r <= 0) {
			l->no_worker = l->no_worker || r == -ENODEV;
			return;
		}
		l->next++;
	}
}

/* ---- Durations -------------------------------------------------------------- */

static int sort_rest(struct gd_launcher *l)
{
	size_t count = l->num_todo - l->next;
	size_t *rest = l->order + l->next;
	cleanup_(freep) const struct gd_found **files = calloc(count + 1, sizeof(*files));
	cleanup_(freep) size_t *order = calloc(count + 1, sizeof(*order));
	if (!files || !order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		files[i] = l->todo[rest[i]];
	int r = gd_balance_order(files, count, GD_BALANCE_LONGEST_FIRST, order);
	for (size_t i = 0; r == 0 && i < count; i++)
		order[i] = rest[order[i]];
	if (r == 0)
		memcpy(rest, order, count * sizeof(*rest));
	return r;
}

/* Sorted again whenever twice as many are known: a few times in all, however many there are. */
void launcher_take_durations(struct gd_launcher *l)
{
	if (!l->durations)
		return;
	size_t asked = durations_asked(l->durations);
	for (; l->durations_taken < asked; l->durations_taken++) {
		size_t i = durations_file(l->durations, l->durations_taken);
		double seconds = durations_get(l->durations, i);
		if (seconds >= 0 && !found_has_seconds(l->todo[i]))
			launcher_set_seconds(l, i, seconds);
	}
	bool by_length = l->options.balance == GD_BALANCE_LONGEST_FIRST && !l->options.strategy;
	bool more = asked >= 2 * l->durations_sorted + SORT_AGAIN_MIN ||
		    (asked == l->num_todo && l->durations_sorted < asked);
	if (by_length && more && l->next < l->num_todo && sort_rest(l) == 0)
		l->durations_sorted = asked;
}
