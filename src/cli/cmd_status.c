/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/queue_cli.h"
#include "cli/terminal.h"
#include "queue/follow.h"
#include "queue/show.h"

enum { OPTION_JSON = 0x200, OPTION_WATCH, OPTION_STATE, OPTION_NAME, OPTION_SINCE };

struct status {
	struct queue_choice queue;
	struct id_list ids;
	bool json, watch;
	unsigned states; /* bits; 0: all */
	const char *name;
	uint64_t since_ms; /* 0: any age */
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
		r = cli_parse_ids(arg, &s->ids, &s->err);
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

typedef void job_fn(struct status *s, const struct job *job, void *context);

static void each(struct status *s, const struct follow *f, job_fn *fn, void *context)
{
	int64_t now = date_now_ms();
	if (s->ids.count == 0)
		for (size_t i = 0; i < f->jobs.count; i++)
			if (wanted(s, f->jobs.by_id[i], now))
				fn(s, f->jobs.by_id[i], context);
	for (size_t i = 0; i < s->ids.count; i++) {
		const struct job *job = jobs_find(&f->jobs, s->ids.ids[i]);
		if (job && wanted(s, job, now))
			fn(s, job, context);
	}
}

struct listing {
	struct text out;
	struct show_options show;
	size_t count;
	int fd;
	int error;
};

static void flush(struct listing *t, size_t above)
{
	if (t->out.length <= above)
		return;
	if (text_error(&t->out))
		t->error = -ENOMEM;
	else if (!t->error)
		t->error = file_write_all(t->fd, t->out.data, t->out.length);
	text_clear(&t->out);
}

static void print_json(struct status *s, const struct job *job, void *context)
{
	struct listing *t = context;
	(void)s;
	text_append_string(&t->out, t->count++ ? ",\n" : "\n");
	show_json(&t->out, job);
	flush(t, 1 << 20);
}

static void measure(struct status *s, const struct job *job, void *context)
{
	struct listing *t = context;
	(void)s;
	/* An upper bound is good enough; the exact width costs a pass over each command. */
	size_t width = job->command_size > 40 ? 40 : display_width(job->command, job->command_size);
	t->show.command_width = width > t->show.command_width ? width : t->show.command_width;
	if (job->name)
		t->show.name_width = 20;
}

static void print_line(struct status *s, const struct job *job, void *context)
{
	struct listing *t = context;
	(void)s;
	show_line(&t->out, job, &t->show);
	text_append_char(&t->out, '\n');
	t->count++;
	flush(t, 1 << 20);
}

static void print_counts(struct listing *t, const struct follow *f)
{
	static const enum job_state order[] = {
		JOB_RUNNING, JOB_PENDING, JOB_HELD, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
	text_appendf(&t->out, "%zu job%s", f->jobs.count, f->jobs.count == 1 ? "" : "s");
	const char *before = ":";
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (f->jobs.counts[order[i]]) {
			text_appendf(&t->out, "%s %zu %s", before, f->jobs.counts[order[i]], job_state_name(order[i]));
			before = ",";
		}
	text_append_char(&t->out, '\n');
}

static int print(struct status *s, struct follow *f)
{
	struct listing t = {.fd = STDOUT_FILENO};
	mark_lost(f);
	if (s->json) {
		text_append_char(&t.out, '[');
		each(s, f, print_json, &t);
		text_append_string(&t.out, "\n]\n");
	} else {
		bool terminal = isatty(STDOUT_FILENO);
		t.show = (struct show_options){.colour = terminal_has_colour(),
			.width = terminal ? terminal_width() : 0,
			.now_ms = date_now_ms()};
		uint64_t last_id = f->jobs.last_id;
		for (t.show.id_width = 1; last_id >= 10; last_id /= 10)
			t.show.id_width++;
		if (s->watch)
			text_append_string(&t.out, terminal ? "\033[H\033[2J" : "");
		each(s, f, measure, &t);
		each(s, f, print_line, &t);
		print_counts(&t, f);
	}
	flush(&t, 0);
	text_finish(&t.out);
	if (f->jobs.bad_lines)
		say("journal '%s': %" PRIu64 " bad line%s skipped, the first is line %" PRIu64, f->path,
			f->jobs.bad_lines, f->jobs.bad_lines == 1 ? "" : "s", f->jobs.first_bad_line);
	return t.error < 0 && t.error != -EPIPE ? error_set(&s->err, t.error, "writing: %s", error_words(t.error)) : 0;
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
	int r = queue_choose(&s->queue, &s->err);
	if (r == 0)
		r = follow_open(s->queue.journal_path, s->watch, &f, &s->err);
	if (r < 0)
		return r;
	r = check_ids(s, &f);
	if (r == 0)
		r = print(s, &f);
	while (r == 0 && s->watch) {
		follow_wait(&f);
		r = follow_update(&f, &s->err);
		if (r == 0)
			r = print(s, &f);
	}
	follow_close(&f);
	return r;
}

static int main_status(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "[ID…]", "Lists the jobs of a queue.", children, NULL, NULL};
	struct status s = {0};
	cli_parse(&argp, argc, argv, &s);
	signal(SIGPIPE, SIG_IGN);
	int r = status(&s);
	int code = r < 0 ? cli_fail(&s.err, r) : EXIT_DONE;
	id_list_finish(&s.ids);
	queue_choice_finish(&s.queue);
	return code;
}

const struct command cmd_status = {"status", "List the jobs", main_status};
