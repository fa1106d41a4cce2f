/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/job_list.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "queue/input/id_list.h"
#include "queue/input/submit.h"
#include "queue/journal/follow.h"
#include "queue/journal/job_json.h"
#include "queue/journal/job_line.h"

/* Much is written out before all of it is there. */
#define FLUSH_ABOVE ((size_t)1 << 20)

enum { OPTION_JSON = 0x200, OPTION_WATCH, OPTION_STATE, OPTION_NAME, OPTION_SINCE };

struct status {
	struct queue_choice queue;
	struct id_list ids;
	bool json, watch;
	unsigned states; /* bits; 0: all */
	const char *name;
	uint64_t since_ms; /* 0: any age */
	bool told_bad_lines;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"json", OPTION_JSON, 0, 0, "An array of objects", 1},
	{"watch", OPTION_WATCH, 0, 0, "Show it again whenever it changes", 1},
	{"state", OPTION_STATE, "STATE[,STATE…]", 0, "Only pending, running, completed, failed, cancelled, held", 1},
	{"name", OPTION_NAME, "NAME", 0, "Only jobs with this name", 1},
	{"since", OPTION_SINCE, "AGE", 0, "Only what was added or ended in the last 2h, 1d…", 1},
	{0},
};

static int parse_states(struct status *s, const char *text)
{
	for (;;) {
		size_t n = strcspn(text, ",");
		enum job_state state;
		if (job_state_parse(text, n, &state) < 0)
			return error_set(&s->err, -EINVAL,
				"--state '%.*s': not a state; there are pending, running, completed, failed, cancelled, held",
				(int)n, text);
		s->states |= 1u << state;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct status *s = state->input;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->queue;
		return 0;
	case OPTION_JSON:
		s->json = true;
		return 0;
	case OPTION_WATCH:
		s->watch = true;
		return 0;
	case OPTION_NAME:
		s->name = arg;
		return 0;
	case OPTION_STATE:
		r = parse_states(s, arg);
		break;
	case OPTION_SINCE:
		r = units_parse_duration(arg, &s->since_ms, &s->err);
		break;
	case ARGP_KEY_ARG:
		r = id_list_parse(arg, &s->ids, &s->err);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		argp_error(state, "%s", s->err.message);
	return 0;
}

static bool wanted(const struct status *s, const struct job *job, int64_t now)
{
	if (s->states && !(s->states & 1u << job->state))
		return false;
	if (s->name && (!job->name || strcmp(job->name, s->name) != 0))
		return false;
	if (s->since_ms) {
		int64_t from = now - (int64_t)s->since_ms;
		bool recent = job->submit_ms >= from || (job->attempts && job->attempts->end_ms >= from);
		if (!recent && job_is_final(job))
			return false;
	}
	return true;
}

/* What the next runner will write down of jobs whose keeper is gone is shown already. */
static void mark_lost(struct follow *f)
{
	for (size_t i = 0; f->jobs.counts[JOB_RUNNING] && i < f->jobs.count; i++) {
		uint64_t id = f->jobs.by_id[i]->id;
		if (f->jobs.by_id[i]->state != JOB_RUNNING || !follow_is_lost(f, id))
			continue;
		struct job *job = jobs_find(&f->jobs, id);
		job->reason = REASON_KEEPER_LOST;
		job->state = JOB_FAILED;
		f->jobs.counts[JOB_RUNNING]--;
		f->jobs.counts[JOB_FAILED]++;
	}
}

static int choose(const struct status *s, const struct follow *f, struct job_list *l)
{
	int64_t now = date_now_ms();
	int r = 0;
	for (size_t i = 0; r == 0 && s->ids.count == 0 && i < f->jobs.count; i++)
		if (wanted(s, f->jobs.by_id[i], now))
			r = job_list_add(l, f->jobs.by_id[i]);
	for (size_t i = 0; r == 0 && i < s->ids.count; i++) {
		const struct job *job = jobs_find(&f->jobs, s->ids.ids[i]);
		if (job && wanted(s, job, now))
			r = job_list_add(l, job);
	}
	return r;
}

/* Written out when there is much of it. */
struct output {
	struct text text;
	int error;
};

static void flush(struct output *o, size_t above)
{
	if (o->text.length <= above)
		return;
	if (text_error(&o->text))
		o->error = -ENOMEM;
	else if (!o->error)
		o->error = file_write_all(STDOUT_FILENO, o->text.data, o->text.length);
	text_clear(&o->text);
}

static void print_json(struct output *o, const struct job_list *l)
{
	text_append_char(&o->text, '[');
	for (size_t i = 0; i < l->count; i++) {
		text_append_string(&o->text, i ? ",\n" : "\n");
		job_json_write(&o->text, l->jobs[i]);
		flush(o, FLUSH_ABOVE);
	}
	text_append_string(&o->text, "\n]\n");
}

/* chosen: how many jobs of all are meant, shown: how many of those stand there. */
static void append_counts(struct text *t, const struct jobs *js, size_t chosen, size_t shown)
{
	static const enum job_state order[] = {
		JOB_RUNNING, JOB_PENDING, JOB_HELD, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
	if (chosen < js->count)
		text_appendf(t, "%zu of ", chosen);
	text_appendf(t, "%zu job%s", js->count, js->count == 1 ? "" : "s");
	const char *before = ":";
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (js->counts[order[i]]) {
			text_appendf(t, "%s %zu %s", before, js->counts[order[i]], job_state_name(order[i]));
			before = ",";
		}
	if (shown < chosen)
		text_appendf(t, "; %zu not shown", chosen - shown);
}

/* A screen that is drawn again is not cleared before: that flickers. */
static int print_lines(const struct status *s, struct output *o, const struct follow *f, struct job_list *l)
{
	bool terminal = isatty(STDOUT_FILENO), again = s->watch && terminal;
	const char *end = again ? "\033[K\n" : "\n";
	cleanup_(text_finish) struct text counts = {0};
	size_t chosen = l->count, height = terminal_height();
	int r = again ? job_list_fit(l, height > 2 ? height - 2 : 1) : 0;
	if (r < 0)
		return r;
	struct job_line_options line = {
		.color = terminal_has_colour(), .width = terminal ? terminal_width() : 0, .now_ms = date_now_ms()};
	job_list_measure(l, f->jobs.last_id, &line);
	text_append_string(&o->text, again ? "\033[H" : "");
	for (size_t i = 0; i < l->count; i++) {
		job_line_write(&o->text, l->jobs[i], &line);
		text_append_string(&o->text, end);
		flush(o, FLUSH_ABOVE);
	}
	append_counts(&counts, &f->jobs, chosen, l->count);
	display_append(&o->text, text_string(&counts), counts.length, again ? line.width : DISPLAY_ALL);
	text_append_string(&o->text, again ? "\033[J\n" : "\n");
	return 0;
}

static int print(struct status *s, struct follow *f)
{
	cleanup_(job_list_finish) struct job_list l = {0};
	struct output o = {0};
	mark_lost(f);
	int r = choose(s, f, &l);
	if (r == 0 && s->json)
		print_json(&o, &l);
	else if (r == 0)
		r = print_lines(s, &o, f, &l);
	flush(&o, 0);
	text_finish(&o.text);
	if (r == 0)
		r = o.error;
	if (f->jobs.bad_lines && !(s->watch && s->told_bad_lines))
		say("journal '%s': %" PRIu64 " bad line%s skipped, the first is line %" PRIu64, f->path,
			f->jobs.bad_lines, f->jobs.bad_lines == 1 ? "" : "s", f->jobs.first_bad_line);
	s->told_bad_lines = true;
	return r < 0 && r != -EPIPE ? error_set(&s->err, r, "writing: %s", error_words(r)) : r;
}

static int check_ids(struct status *s, const struct follow *f)
{
	for (size_t i = 0; i < s->ids.count; i++)
		if (!jobs_find(&f->jobs, s->ids.ids[i]))
			return error_set(&s->err, -ENOENT, "job %" PRIu64 ": there is no such job", s->ids.ids[i]);
	return 0;
}

static int status(struct status *s)
{
	struct follow f;
	int r = queue_choice_resolve(&s->queue, &s->err);
	if (r == 0)
		r = follow_open(s->queue.journal_path, s->watch, &f, &s->err);
	if (r < 0)
		return r;
	r = check_ids(s, &f);
	if (r == 0 && s->watch && isatty(STDOUT_FILENO) && !s->json)
		(void)!write(STDOUT_FILENO, "\033[2J", 4);
	if (r == 0)
		r = print(s, &f);
	while (r == 0 && s->watch) {
		follow_wait(&f);
		r = follow_update(&f, &s->err);
		if (r == 0)
			r = print(s, &f);
	}
	/* Who reads has seen enough. */
	r = r == -EPIPE ? 0 : r;
	follow_close(&f);
	return r;
}

static int main_status(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "[ID…]", "Lists the jobs of a queue.", children, NULL, NULL};
	struct status s = {0};
	command_parse(&argp, argc, argv, &s);
	signal(SIGPIPE, SIG_IGN);
	int r = status(&s);
	int code = r < 0 ? command_fail(&s.err, r) : EXIT_DONE;
	id_list_finish(&s.ids);
	queue_choice_finish(&s.queue);
	return code;
}

const struct command cmd_status = {"status", "List the jobs", main_status};
