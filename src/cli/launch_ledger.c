/* SPDX-License-Identifier: MIT */
#include "cli/launch_ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/json_read.h"

/* One line of a file that came to an end. */
struct entry {
	const char *file;
	const char *error; /* or NULL */
	int64_t end_ms;
	double audio, processing;
	size_t number; /* of the line */
	int gpu;       /* -1: none */
	bool done;
};

struct ledger {
	struct entry *entries;
	size_t count, room;
	uint64_t bad_lines;
	int64_t run_start_ms, run_end_ms; /* of the run that is being read; start 0: none yet */
	double wall_seconds;
	struct arena arena;
};

struct line {
	struct json_value event, file, file_b64, time, gpu, audio, processing, error;
};

static int parse(struct line *ret, const char *text, size_t size)
{
	struct json_cursor c;
	struct json_value key, value;
	*ret = (struct line){0};
	const struct {
		const char *name;
		struct json_value *to;
	} members[] = {{"event", &ret->event}, {"file", &ret->file}, {"file_b64", &ret->file_b64}, {"time", &ret->time},
		{"gpu", &ret->gpu}, {"audio_seconds", &ret->audio}, {"processing_seconds", &ret->processing},
		{"error", &ret->error}};
	int r = json_begin(&c, text, size);
	if (r < 0)
		return r;
	while ((r = json_next_member(&c, &key, &value)) > 0)
		for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
			if (json_is(&key, members[i].name))
				*members[i].to = value;
	return r < 0 ? r : json_end(&c);
}

/* NULL where it is no string, or memory ran out. */
static const char *keep(struct ledger *l, const struct json_value *plain, const struct json_value *coded)
{
	const struct json_value *v = coded && coded->type == JSON_STRING ? coded : plain;
	char *to = v->type == JSON_STRING ? arena_room(&l->arena, v->size) : NULL;
	if (!to)
		return NULL;
	ssize_t n = v == coded ? base64_decode(v->data, v->size, to) : (ssize_t)json_unescape(v, to);
	if (n < 0)
		return NULL;
	arena_keep(&l->arena, (size_t)n);
	return to;
}

static double number_of(const struct json_value *v, double otherwise)
{
	double d;
	return v->type == JSON_NUMBER && json_to_double(v, &d) == 0 && d >= 0 && d < 1e9 ? d : otherwise;
}

static void end_run(struct ledger *l)
{
	if (l->run_start_ms && l->run_end_ms > l->run_start_ms)
		l->wall_seconds += (double)(l->run_end_ms - l->run_start_ms) / 1000;
	l->run_start_ms = l->run_end_ms = 0;
}

static int add_entry(struct ledger *l, const struct line *line, int64_t time_ms, size_t number)
{
	int64_t gpu;
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		struct entry *entries = reallocarray(l->entries, room, sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		l->entries = entries;
		l->room = room;
	}
	const char *file = keep(l, &line->file, &line->file_b64);
	if (!file)
		return -EBADMSG;
	l->entries[l->count++] = (struct entry){.file = file,
		.error = keep(l, &line->error, NULL),
		.end_ms = time_ms,
		.audio = number_of(&line->audio, -1),
		.processing = number_of(&line->processing, 0),
		.number = number,
		.gpu = json_to_int64(&line->gpu, &gpu) == 0 && gpu >= 0 && gpu < 100000 ? (int)gpu : -1,
		.done = json_is(&line->event, "done")};
	l->run_end_ms = time_ms > l->run_end_ms ? time_ms : l->run_end_ms;
	return 0;
}

static int take_line(struct ledger *l, const char *text, size_t size, size_t number)
{
	struct line line;
	int64_t time_ms;
	int r = parse(&line, text, size);
	if (r < 0)
		return r;
	bool run = json_is(&line.event, "run"), file = json_is(&line.event, "done") || json_is(&line.event, "failed");
	if (!run && !file)
		return line.event.type == JSON_STRING ? 0 : -EBADMSG;
	if (line.time.type != JSON_STRING || date_parse(line.time.data, line.time.size, &time_ms) < 0)
		return -EBADMSG;
	if (file)
		return add_entry(l, &line, time_ms, number);
	end_run(l);
	l->run_start_ms = time_ms;
	return 0;
}

/* ---- As a model ------------------------------------------------------------------------------ */

static int by_file(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->file, y->file);
	return c ? c : (x->number > y->number) - (x->number < y->number);
}

/* The lines of one file, oldest first: its attempts. */
static int put_file(struct view_model *m, const struct entry *entries, size_t count, uint64_t id)
{
	cleanup_(freep) struct view_attempt *attempts = calloc(count, sizeof(*attempts));
	if (!attempts)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct entry *e = &entries[i];
		int64_t ms = (int64_t)(e->processing * 1000);
		attempts[i] = (struct view_attempt){.start_ms = e->end_ms - ms,
			.end_ms = e->end_ms,
			.duration_ms = ms,
			.peak_mem_mb = -1,
			.exit_code = -1,
			.state = e->done ? VIEW_JOB_COMPLETED : VIEW_JOB_FAILED,
			.reason = e->error,
			.gpus = &e->gpu,
			.num_gpus = e->gpu >= 0};
	}
	const struct entry *last = &entries[count - 1];
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

static int put_files(struct ledger *l, struct view_model *m, struct report_launch *ret)
{
	double *audio = calloc(l->count + 1, sizeof(*audio));
	size_t files = 0;
	int r = audio ? 0 : -ENOMEM;
	if (l->count)
		qsort(l->entries, l->count, sizeof(*l->entries), by_file);
	for (size_t i = 0, next; r == 0 && i < l->count; i = next) {
		for (next = i + 1; next < l->count && strcmp(l->entries[next].file, l->entries[i].file) == 0;)
			next++;
		audio[files++] = l->entries[next - 1].audio;
		r = put_file(m, l->entries + i, next - i, files);
	}
	if (r < 0) {
		free(audio);
		return r;
	}
	*ret = (struct report_launch){.audio_seconds = audio, .count = files, .wall_seconds = l->wall_seconds};
	return 0;
}

static int read_lines(struct ledger *l, FILE *file)
{
	cleanup_(freep) char *text = NULL;
	size_t room = 0;
	ssize_t n;
	errno = 0;
	for (size_t number = 1; (n = getline(&text, &room, file)) > 0; number++) {
		/* One that is being written is none yet. */
		if (text[n - 1] != '\n' || n == 1)
			continue;
		int r = take_line(l, text, (size_t)n - 1, number);
		if (r == -ENOMEM)
			return r;
		l->bad_lines += r < 0;
	}
	end_run(l);
	return ferror(file) ? -errno : 0;
}

int launch_ledger_read(const char *path, struct view_model *m, struct report_launch *ret, uint64_t *ret_bad_lines,
	struct gd_error *err)
{
	struct ledger l = {0};
	cleanup_(fclosep) FILE *file = fopen(path, "re");
	int r = file ? read_lines(&l, file) : -errno;
	if (r == 0)
		r = put_files(&l, m, ret);
	if (r == 0)
		*ret_bad_lines = l.bad_lines;
	free(l.entries);
	arena_finish(&l.arena);
	if (r == -ENOENT)
		return error_set(err, r, "reading '%s': there is none; name the output folder of a gpuq launch", path);
	return r < 0 ? error_set(err, r, "reading '%s': %s", path, error_words(r)) : 0;
}

void launch_ledger_finish(struct report_launch *l)
{
	free((void *)(uintptr_t)l->audio_seconds);
	*l = (struct report_launch){0};
}
