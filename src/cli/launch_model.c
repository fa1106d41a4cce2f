/* SPDX-License-Identifier: MIT */
#include "cli/launch_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/cost_limit.h"
#include "base/date.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/queue_choice.h"
#include "launch/history_reader.h"

/* One attempt at a file: a line that records how it ended. */
struct launch_attempt {
	const char *file;
	const char *error; /* or NULL */
	int64_t owner;     /* 0: this user; files of different owners with the same name are different files */
	int64_t end_ms;
	double audio, processing; /* seconds; audio -1: unknown */
	uint64_t line;            /* line number: attempts at a file are in the order of their lines */
	int gpu;                  /* -1: no GPU; from REPORT_NODE_GPUS: of a node */
	const char *place;        /* "node3:1", or NULL: not on a node */
	bool done;
};

struct launch_attempts {
	struct launch_attempt *list;
	size_t count, capacity;
	int64_t run_start_ms, run_end_ms; /* of the run being read; start 0: no run yet */
	double wall_seconds;
	struct arena arena;
};

/* NULL if it is not a string, or if memory ran out. */
static const char *keep(struct launch_attempts *a, const struct history_bytes *bytes)
{
	char *to = arena_room(&a->arena, history_bytes_room(bytes));
	ssize_t n = to ? history_bytes_decode(bytes, to) : -ENOMEM;
	if (n < 0)
		return NULL;
	arena_keep(&a->arena, (size_t)n);
	return to;
}

static double number_of(const struct json_value *v, double otherwise)
{
	double d;
	return v->type == JSON_NUMBER && json_to_double(v, &d) == 0 && d >= 0 && d < 1e9 ? d : otherwise;
}

static void end_run(struct launch_attempts *a)
{
	if (a->run_start_ms && a->run_end_ms > a->run_start_ms)
		a->wall_seconds += (double)(a->run_end_ms - a->run_start_ms) / 1000;
	a->run_start_ms = a->run_end_ms = 0;
}

/* "node3:1"; NULL if the file was processed on this machine, or if the name is not that of a host. */
static const char *keep_place(struct launch_attempts *a, const struct json_value *node, int64_t gpu)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	const char *name = keep(a, &(struct history_bytes){.plain = *node});
	if (!name || !*name || strlen(name) > REPORT_NODE_MAX || name[strspn(name, letters)] || gpu < 0)
		return NULL;
	char *to = arena_alloc(&a->arena, REPORT_GPU_NAME);
	if (to)
		snprintf(to, REPORT_GPU_NAME, "%s:%d", name, (int)gpu);
	return to;
}

static int add_attempt(struct launch_attempts *a, const struct history_line *line, int64_t time_ms)
{
	int64_t gpu, owner = 0;
	(void)json_to_int64(&line->owner, &owner); /* missing: this user */
	if (json_to_int64(&line->gpu, &gpu) < 0 || gpu < 0 || gpu >= REPORT_NODE_GPUS)
		gpu = -1;
	if (array_reserve(a->list, &a->capacity, a->count + 1) < 0)
		return -ENOMEM;
	const char *file = keep(a, &line->file);
	if (!file)
		return -EBADMSG;
	a->list[a->count++] = (struct launch_attempt){.file = file,
		.error = keep(a, &(struct history_bytes){.plain = line->error}),
		.owner = owner,
		.end_ms = time_ms,
		.audio = number_of(&line->audio, -1),
		.processing = number_of(&line->processing, 0),
		.line = line->number,
		.gpu = (int)gpu,
		.place = keep_place(a, &line->node, gpu),
		.done = line->event == HISTORY_DONE};
	a->run_end_ms = time_ms > a->run_end_ms ? time_ms : a->run_end_ms;
	return 0;
}

static int take_line(void *context, const struct history_line *line)
{
	struct launch_attempts *a = context;
	int64_t time_ms;
	if (line->time.type != JSON_STRING || date_parse(line->time.data, line->time.size, &time_ms) < 0)
		return -EBADMSG;
	if (line->event == HISTORY_STARTED)
		return 0;
	if (line->event != HISTORY_RUN)
		return add_attempt(a, line, time_ms);
	end_run(a);
	a->run_start_ms = time_ms;
	return 0;
}

/* ---- Filling the model ----------------------------------------------------------------------- */

static int by_file(const void *a, const void *b)
{
	const struct launch_attempt *x = a, *y = b;
	int c = strcmp(x->file, y->file);
	if (c == 0)
		c = (x->owner > y->owner) - (x->owner < y->owner);
	return c ? c : (x->line > y->line) - (x->line < y->line);
}

static bool is_same_file(const struct launch_attempt *x, const struct launch_attempt *y)
{
	return x->owner == y->owner && strcmp(x->file, y->file) == 0;
}

/* The attempts at one file, oldest first. */
static int put_file(struct view_model *m, const struct launch_attempt *list, size_t count, uint64_t id)
{
	cleanup_(freep) struct view_attempt *attempts = calloc(count, sizeof(*attempts));
	if (!attempts)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct launch_attempt *e = &list[i];
		int64_t ms = (int64_t)(e->processing * 1000);
		attempts[i] = (struct view_attempt){.start_ms = e->end_ms - ms,
			.end_ms = e->end_ms,
			.duration_ms = ms,
			.peak_mem_mb = -1,
			.energy_j = -1,
			.exit_code = -1,
			.state = e->done ? VIEW_JOB_COMPLETED : VIEW_JOB_FAILED,
			.reason = e->error,
			.gpus = &e->gpu,
			.num_gpus = e->gpu >= 0};
	}
	const struct launch_attempt *last = &list[count - 1];
	struct view_job job = {.id = id,
		.command = last->file,
		.state = last->done ? VIEW_JOB_COMPLETED : VIEW_JOB_FAILED,
		.num_gpus = 1,
		.mem_mb = -1,
		.timeout_ms = -1,
		.submit_ms = attempts[0].start_ms,
		.reason = last->error,
		.attempts = attempts,
		.num_attempts = count};
	return view_put_job(m, &job);
}

static int by_place(const void *a, const void *b)
{
	const struct launch_attempt *x = a, *y = b;
	if (!x->place || !y->place)
		return !x->place - !y->place;
	return strverscmp(x->place, y->place);
}

/* GPUs of nodes have numbers of their own: GPU 0 of one node is not GPU 0 of another. */
static int put_gpus_of_nodes(struct launch_attempts *a, struct view_model *m)
{
	int id = REPORT_NODE_GPUS - 1, r = 0;
	if (a->count)
		qsort(a->list, a->count, sizeof(*a->list), by_place);
	for (size_t i = 0; r == 0 && i < a->count && a->list[i].place; i++) {
		if (i == 0 || strcmp(a->list[i].place, a->list[i - 1].place) != 0) {
			struct view_gpu gpu = view_gpu_unknown(++id, 0);
			gpu.name = a->list[i].place;
			r = view_put_gpu(m, &gpu);
		}
		a->list[i].gpu = id;
	}
	return r;
}

static int put_files(struct launch_attempts *a, struct view_model *m, struct report_launch *ret)
{
	double *audio = calloc(a->count + 1, sizeof(*audio));
	size_t files = 0;
	int r = audio ? put_gpus_of_nodes(a, m) : -ENOMEM;
	if (a->count)
		qsort(a->list, a->count, sizeof(*a->list), by_file);
	for (size_t i = 0, next; r == 0 && i < a->count; i = next) {
		for (next = i + 1; next < a->count && is_same_file(&a->list[next], &a->list[i]);)
			next++;
		audio[files++] = a->list[next - 1].audio;
		r = put_file(m, a->list + i, next - i, files);
	}
	if (r < 0) {
		free(audio);
		return r;
	}
	*ret = (struct report_launch){.audio_seconds = audio, .count = files, .wall_seconds = a->wall_seconds};
	return 0;
}

/* If other users can write the file, reading it and writing the report have the limits of a journal of another user. */
static void limit_cost(int fd, const char *path)
{
	if (trust_is_off() || !trust_objection(fd))
		return;
	queue_limit_cost();
	cost_limit_start(path);
}

int launch_model_read(const char *path, struct view_model *m, struct report_launch *ret, uint64_t *ret_bad_lines,
	struct gd_error *err)
{
	struct launch_attempts attempts = {0};
	struct history_reader reader = {.take = take_line, .context = &attempts, .skip_unfinished = true};
	cleanup_(closep) int fd = history_reader_open(path);
	if (fd >= 0)
		limit_cost(fd, path);
	int r = fd < 0 ? fd : history_reader_run(&reader, fd);
	end_run(&attempts);
	if (r == 0)
		r = put_files(&attempts, m, ret);
	if (r == 0)
		*ret_bad_lines = reader.bad_lines;
	free(attempts.list);
	arena_finish(&attempts.arena);
	if (r == -ENOENT)
		return error_set(
			err, r, "cannot read '%s': no such file; give the output folder of a gpuq launch", path);
	return r < 0 ? error_set(err, r, "cannot read '%s': %s", path, history_reader_words(r)) : 0;
}

void launch_model_finish(struct report_launch *l)
{
	free((void *)(uintptr_t)l->audio_seconds);
	*l = (struct report_launch){0};
}
