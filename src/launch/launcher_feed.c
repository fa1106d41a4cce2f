/* SPDX-License-Identifier: MIT */
/* Hands files to workers: few ahead of time, in an order that improves as durations become known. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/code_place.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/being_written.h"
#include "launch/file_task.h"
#include "launch/find.h"
#include "launch/launcher_private.h"
#include "launch/template.h"
#include "pool/pool_hints.h"

#define AHEAD_SECONDS 0.02             /* work that waits in the pool, per worker */
#define AHEAD_MAX     256              /* files */
#define OTHER_OUTPUT  2                /* returned by try_submit() */
#define DEFERRED      3                /* returned by prepare(), see launcher_watch_defer() */
#define FEED_NS       (20 * NS_PER_MS) /* per call of feed_line(): a stop must not wait for many incomplete files */

/*
 * Workers open files by their paths, which other users may have redirected. -EPERM: by a link; -ESTALE: to another
 * folder. -ENOENT instead if the folder is watched: its old files are gone, and a search finds those of the new one.
 */
static int check_folder(struct gd_launcher *l)
{
	cleanup_(closep) int fd = -1;
	struct stat before, now;
	uint64_t now_ns = clock_now_ns();
	/* The user may have given others write access to a folder above it. */
	if (!l->input_replaceable && now_ns >= l->input_looked_ns + LAUNCHER_LOOK_NS) {
		l->input_looked_ns = now_ns;
		l->input_replaceable = trust_check_way(l->input_fd, NULL) < 0;
		l->input_way.replaceable = l->input_way.replaceable || l->input_replaceable;
	}
	/* The user may have renamed the folder: the path that workers get would lead elsewhere. */
	bool leads = stat(l->files->folder, &now) == 0 && fstat(l->input_fd, &before) == 0 &&
		     now.st_dev == before.st_dev && now.st_ino == before.st_ino;
	const int moved = l->watch ? -ENOENT : -ESTALE;
	if (!l->input_replaceable)
		return leads ? 0 : moved;
	int r = find_open_folder(l->files->folder, &fd);
	if (r < 0)
		return r == -ENOENT ? moved : r;
	if (fstat(fd, &now) < 0 || fstat(l->input_fd, &before) < 0)
		return -errno;
	if (now.st_dev == before.st_dev && now.st_ino == before.st_ino)
		return 0;
	return moved;
}

/*
 * The file as it is now: later changes make its result outdated. -EPERM: see find_open_entry() and
 * find_objection_to_holes(), or check_folder() if the objection is NULL.
 */
static int look_at_file(struct gd_launcher *l, size_t i, uid_t *ret_owner, const char **ret_objection)
{
	struct gd_found *f = l->todo[i];
	struct stat st;
	*ret_objection = NULL;
	cleanup_(closep) int fd = -1;
	/* The folder may have been listed long ago. */
	int r = check_folder(l);
	if (r == 0)
		r = find_open_entry(
			l->input_fd, f->path, l->options.trust_input, &l->input_way, &fd, &st, ret_objection);
	launcher_warn_if_open(l);
	if (r < 0)
		return r;
	if (!l->options.trust_input)
		*ret_objection = find_objection_to_holes(fd, NULL, &st, &l->input_way);
	if (*ret_objection)
		return -EPERM;
	if (!S_ISREG(st.st_mode)) {
		*ret_objection = S_ISFIFO(st.st_mode) ? "it is a pipe, not a regular file" : "it is not a regular file";
		return -EINVAL;
	}
	if (!(st.st_mode & S_IROTH) && faccessat(l->input_fd, f->path, R_OK, AT_EACCESS) < 0)
		return -errno;
	if (l->watch && being_written(fd, &st))
		return -EBUSY;
	if ((uint64_t)st.st_size != f->size_bytes) {
		launch_amount_remove(&l->total, f);
		f->size_bytes = (uint64_t)st.st_size;
		launch_amount_add(&l->total, f);
	}
	f->mtime_ns = file_mtime_ns(&st);
	*ret_owner = find_owner_of(fd, NULL, &st, &l->input_way, geteuid());
	return 0;
}

/* Reserves the task without waiting. With a fixed GPU or max_failures, only an idle worker takes it: nothing is handed
 * out ahead of time. */
static int reserve(struct gd_launcher *l, size_t size, int gpu, struct gd_draft **ret, void **ret_data)
{
	static const struct gd_task_options nowait = {.size = sizeof(nowait), .nowait = 1};
	if (gpu >= 0 || l->options.max_failures > 0)
		return pool_reserve_on(l->pool, size, gpu, true, ret, ret_data);
	return gd_pool_reserve(l->pool, size, &nowait, ret, ret_data);
}

/* Whether a name that another user may have chosen, and that is not ordinary (place_is_ordinary()), would be inserted
 * into the command. */
static bool has_odd_name(const struct gd_launcher *l, size_t i)
{
	const char *path = l->todo[i]->path, *folder = find_chosen_part(l->files);
	if (l->worker.kind != LAUNCH_TEMPLATE || l->options.trust_input || !launcher_is_open_to_others(l))
		return false;
	return (!place_is_ordinary(path, strlen(path)) || (folder && !place_is_ordinary(folder, strlen(folder)))) &&
	       template_has_names(l->worker.argv);
}

/* Checks the file and makes its output folder when its turn has come; on failure sets the reason. May return
 * LAUNCHER_OTHER_OUTPUT or DEFERRED. */
static int prepare(struct gd_launcher *l, size_t i, const char *output, struct text *words)
{
	const char *objection;
	uid_t owner = 0;
	int r = look_at_file(l, i, &owner, &objection);
	if (r < 0 && launcher_watch_defer(l, i, r))
		return DEFERRED;
	if (r < 0) {
		text_append_string(words, objection      ? objection
					  : r == -ENOENT ? "the file no longer exists"
					  : r == -EPERM
						  ? "one of the folders above it is now a symbolic link of another user"
					  : r == -ESTALE ? "the input folder was renamed or replaced"
							 : error_words(r));
		return r;
	}
	r = launcher_check_owner(l, i, owner);
	if (r != 0)
		return r;
	if (has_odd_name(l, i)) {
		text_append_string(words,
			"its path has characters other than letters, digits, blanks and _./+-(), which the command could interpret, and other users can choose names in this path; use --trust (trust_input) if you trust these users, rename the file or the folder, or let your program read the variables GPUQ_FILE and GPUQ_OUTPUT");
		return -EPERM;
	}
	const char *input = launcher_other_input(l, i);
	if (input) {
		text_appendf(words,
			"the output folder has results of a file with the same name from '%s'; choose another output_dir to keep them%s",
			input, launcher_is_open_to_others(l) ? "" : ", or set force to replace them");
		return -EEXIST;
	}
	r = launcher_make_result_folder(l, i, &objection);
	if (r < 0)
		text_appendf(words, "cannot create its output folder '%s': %s%s", output,
			objection ? "one of its parent folders " : "", objection ? objection : error_words(r));
	return r;
}

static void describe(const struct gd_launcher *l, size_t i, struct gd_file *ret)
{
	const struct gd_found *f = l->todo[i];
	ret->size_bytes = f->size_bytes;
	ret->known = f->known & GD_KNOWN_SECONDS;
	ret->seconds = f->seconds;
}

static int send_file(struct gd_launcher *l, size_t i, struct gd_draft *draft, size_t size)
{
	uint64_t id;
	int r = gd_draft_commit(draft, size, (void *)(uintptr_t)i, &id);
	if (r < 0)
		return r;
	launcher_watch_begun(l, i);
	/* If out of memory, views do not show the worker's file. */
	if (array_reserve(l->submitted, &l->submitted_capacity, id + 1) == 0) {
		for (; l->num_submitted < id; l->num_submitted++)
			l->submitted[l->num_submitted] = 0;
		l->submitted[id] = i;
		l->num_submitted = id + 1;
	}
	return 0;
}

/* 1: the file was submitted or has failed; 0: no worker takes it now; -ENODEV: no worker is left; -ENXIO: none on this
 * GPU; OTHER_OUTPUT: begin again.
 */
static int try_submit(struct gd_launcher *l, size_t i, int gpu)
{
	cleanup_(text_finish) struct text path = {0}, output = {0}, words = {0};
	text_appendf(&path, "%s/%s", l->files->folder, l->todo[i]->path);
	text_appendf(&output, "%s/%s", l->output_root, l->output_of[i].folder);
	size_t length;
	const char *name = outputs_stem(l->todo[i]->path, &length);
	char stem[NAME_MAX + 1];
	snprintf(stem, sizeof(stem), "%.*s", (int)length, name);
	struct gd_file file = {
		.size = sizeof(file), .path = text_string(&path), .output_dir = text_string(&output), .stem = stem};
	struct gd_draft *draft = NULL;
	void *data;
	size_t size = file_task_size(&file);
	int r = text_error(&path) || text_error(&output) ? -ENOMEM : reserve(l, size, gpu, &draft, &data);
	if (r == -EAGAIN || r == -ESHUTDOWN || r == -ENODEV || r == -ENXIO)
		return r == -ENODEV || r == -ENXIO ? r : 0;
	if (r == 0 && (r = prepare(l, i, text_string(&output), &words)) != 0) {
		gd_draft_abandon(draft);
		if (r == LAUNCHER_OTHER_OUTPUT)
			return OTHER_OUTPUT;
		if (r == DEFERRED)
			return 1;
	} else if (r == 0) {
		describe(l, i, &file);
		file_task_write(&file, data);
		r = send_file(l, i, draft, size);
		if (r == -ESHUTDOWN || r == -ENODEV)
			return r == -ENODEV ? r : 0;
	}
	if (r < 0 && !words.length)
		text_appendf(&words, "cannot pass it to a worker: %s", error_words(r));
	if (r < 0) {
		launcher_put_result(l, i, NULL, text_string(&words));
		launcher_check_failures(l);
	}
	return 1;
}

static int submit(struct gd_launcher *l, size_t i, int gpu)
{
	int r;
	do
		r = try_submit(l, i, gpu);
	while (r == OTHER_OUTPUT);
	return r;
}

/* Few, so that durations learned later still affect the order; enough that workers never wait. */
static size_t window(const struct gd_launcher *l)
{
	struct gd_launch_summary s;
	gd_balancer_summary(l->balancer, &s, sizeof(s));
	double ahead = 1;
	/* Other users could let slow files follow many quick ones: a file of this user would wait for all of them. */
	bool waits = l->watch && launcher_is_open_to_others(l);
	if (s.files_done > 0 && !waits)
		ahead = AHEAD_SECONDS * (double)s.files_done / (s.processing_seconds + 1e-9);
	ahead = ahead < 1 ? 1 : ahead > AHEAD_MAX ? AHEAD_MAX : ahead;
	return l->num_workers * (1 + (size_t)ahead);
}

/* Submits files of a line until workers take no more. Returns the last result of submit(); 1 if the line is empty. */
static int feed_line(struct gd_launcher *l, struct launch_line *line, int gpu, size_t most)
{
	int r = 1;
	uint64_t end_ns = clock_now_ns() + FEED_NS;
	while (!launcher_is_ending(l) && !launch_line_is_empty(line) && gd_pool_outstanding(l->pool) < most) {
		if (clock_now_ns() >= end_ns) {
			l->feeding = true;
			break;
		}
		size_t i = line->files[line->next];
		r = launcher_watch_has_dropped(l, i) ? 1 : submit(l, i, gpu);
		if (r <= 0)
			break;
		line->next++;
	}
	return r;
}

void launcher_feed(struct gd_launcher *l)
{
	struct launch_queue *q = &l->queue;
	l->feeding = false;
	for (size_t g = 0; g < q->num_lines; g++)
		if (feed_line(l, &q->lines[g], l->gpus->gpus[g]->index, SIZE_MAX) == -ENXIO)
			(void)launch_queue_release(q, g); /* out of memory: retried */
	int r = feed_line(l, &q->any, -1, window(l));
	l->no_worker_left = l->no_worker_left || r == -ENODEV;
}
