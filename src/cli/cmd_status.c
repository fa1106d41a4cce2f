/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/say.h"
#include "cli/status_parts.h"
#include "queue/journal/queue_registry.h"

enum { OPTION_JSON = 0x200, OPTION_WATCH, OPTION_STATE, OPTION_NAME, OPTION_SINCE, OPTION_ALL };

static const struct argp_option options[] = {
	{"all", OPTION_ALL, 0, 0, "Show all your queues on this machine ('gpuq queues' lists them)", 1},
	{"json", OPTION_JSON, 0, 0, "Print a JSON array of objects", 1},
	{"watch", OPTION_WATCH, 0, 0, "Refresh the list whenever it changes", 1},
	{"state", OPTION_STATE, "STATE[,STATE...]", 0,
		"List only jobs in these states: pending, running, completed, failed, cancelled, held, unknown", 1},
	{"name", OPTION_NAME, "NAME", 0, "List only jobs with this name", 1},
	{"since", OPTION_SINCE, "AGE", 0,
		"List only jobs that have not ended, or were added or ended in the last 2h, 1d…", 1},
	{0},
};

static int parse_states(struct status *s, const char *text)
{
	for (;;) {
		size_t n = strcspn(text, ",");
		enum job_state state;
		if (job_state_parse(text, n, &state) < 0)
			return error_set(&s->err, -EINVAL,
				"--state '%.*s': not a state; expected pending, running, completed, failed, cancelled, held, unknown",
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
	case OPTION_ALL:
		s->all = true;
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
		if (units_parse_duration(arg, &s->since_ms, &s->err) < 0)
			arguments_error(state, "--since: %s", s->err.message);
		return 0;
	case ARGP_KEY_ARG:
		r = job_selection_add(&s->selection, arg, &s->err);
		break;
	case ARGP_KEY_END:
		if (s->all && (s->selection.count || s->queue.jobs_file))
			arguments_error(
				state, "--all cannot be used with %s", s->selection.count ? "job ids" : "--jobs-file");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		arguments_error(state, "%s", s->err.message);
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

/* If the `gpuq exec` of a lease has ended, shows the lease as cancelled: the next runner will record this. */
static void mark_left(struct follow *f)
{
	size_t waiting = f->jobs.counts[JOB_PENDING] + f->jobs.counts[JOB_HELD];
	for (size_t i = 0; waiting && i < f->jobs.count; i++) {
		struct job *job = f->jobs.by_id[i];
		if (!follow_lease_is_left(f, job))
			continue;
		f->jobs.counts[job->state]--;
		f->jobs.counts[JOB_CANCELLED]++;
		job->reason = REASON_LEASE_LEFT;
		job->state = JOB_CANCELLED;
	}
}

/* If the keeper of a job has died, shows the job as failed: the next runner will record this. */
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

static bool has_pending(const struct job_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->jobs[i]->state == JOB_PENDING)
			return true;
	return false;
}

static void say_what_is_damaged(const struct follow *f)
{
	if (f->jobs.bad_lines)
		say("journal '%s': %" PRIu64 " bad line%s skipped, the first is line %" PRIu64
		    "; run 'gpuq verify' for details",
			f->path, f->jobs.bad_lines, f->jobs.bad_lines == 1 ? "" : "s", f->jobs.first_bad_line);
	if (f->jobs.outdated)
		say("journal '%s' is damaged: it was replaced with an earlier copy; run 'gpuq verify' for details",
			f->path);
	else if (f->jobs.damaged)
		say("journal '%s' is damaged: %" PRIu64 " record%s missing; run 'gpuq verify' for details", f->path,
			number_set_size(&f->jobs.holes), number_set_size(&f->jobs.holes) == 1 ? " is" : "s are");
}

static int print_queue(struct status *s, struct follow *f, struct status_output *o, size_t rows)
{
	struct status_queue q = {.follow = f};
	mark_lost(f);
	mark_left(f);
	int r = choose(s, f, &q.jobs);
	if (r == 0 && f->jobs.counts[JOB_PENDING] && has_pending(&q.jobs))
		r = verdicts_open(f, NULL, NULL, VERDICTS_QUICK, &q.verdicts, NULL);
	if (s->all)
		q.label = "queue";
	else if (queue_choice_may_surprise(&s->queue))
		q.label = queue_choice_words(&s->queue);
	if (r == 0)
		r = s->json ? status_put_json(o, &q, s->all ? f->path : NULL) : status_put_lines(o, &q, rows);
	verdicts_close(q.verdicts);
	job_list_finish(&q.jobs);
	return r;
}

static int print(struct status *s)
{
	struct status_output o = {0};
	bool again = s->watch && isatty(STDOUT_FILENO) && !s->json;
	size_t height = terminal_height(), rows = again ? (height > 2 ? height - 1 : 2) / s->num_queues : 0;
	int r = 0;
	text_append_string(&o.text, again ? "\033[H" : s->json ? "[" : "");
	for (size_t i = 0; r == 0 && i < s->num_queues; i++)
		r = print_queue(s, &s->queues[i], &o, again && rows < 2 ? 2 : rows);
	text_append_string(&o.text, again ? "\033[J" : s->json ? "\n]\n" : "");
	status_flush(&o, 0);
	text_finish(&o.text);
	for (size_t i = 0; !(s->watch && s->told_bad_lines) && i < s->num_queues; i++)
		say_what_is_damaged(&s->queues[i]);
	s->told_bad_lines = true;
	r = r < 0 ? r : o.error;
	return r < 0 && r != -EPIPE ? error_set(&s->err, r, "cannot write the output: %s", error_words(r)) : r;
}

static int check_ids(struct status *s, const struct follow *f)
{
	for (size_t i = 0; i < s->ids.count; i++)
		if (!jobs_find(&f->jobs, s->ids.ids[i]))
			return error_set(&s->err, -ENOENT, "job %" PRIu64 ": %s", s->ids.ids[i],
				jobs_absence(&f->jobs, s->ids.ids[i]));
	return 0;
}

static int open_one(struct status *s)
{
	s->queues = calloc(1, sizeof(*s->queues));
	if (!s->queues)
		return error_set(&s->err, -ENOMEM, "cannot read the queue: out of memory");
	int r = queue_choice_follow(&s->queue, s->watch, s->queues, &s->err);
	s->num_queues = r == 0;
	if (r == 0)
		r = job_selection_resolve(&s->selection, &s->queues->jobs, &s->ids, NULL, &s->err);
	return r == 0 ? check_ids(s, s->queues) : r;
}

/* A queue that cannot be read is reported, and the others are shown. */
static int open_all(struct status *s)
{
	struct queue_registry registry = {0};
	queue_limit_cost();
	int r = queue_registry_list(&registry, s->queue.journal_path, &s->err);
	s->queues = calloc(registry.count + 1, sizeof(*s->queues));
	if (r == 0 && !s->queues)
		r = error_set(&s->err, -ENOMEM, "cannot list the queues: out of memory");
	for (size_t i = 0; r == 0 && i < registry.count; i++) {
		struct gd_error why;
		if (follow_open(registry.paths[i], s->watch, &s->queues[s->num_queues], &why) == 0)
			s->num_queues++;
		else
			say_error(&why);
	}
	queue_registry_finish(&registry);
	if (r == 0 && s->num_queues == 0)
		return error_set(&s->err, -ENOENT, "no queues yet; add jobs with 'gpuq add' or 'gpuq run'");
	return r;
}

static int watch(struct status *s)
{
	int r = 0;
	while (r == 0) {
		follow_wait_any(s->queues, s->num_queues);
		for (size_t i = 0; r == 0 && i < s->num_queues; i++)
			r = follow_update(&s->queues[i], &s->err);
		if (r == 0)
			r = print(s);
	}
	return r;
}

static int status(struct status *s)
{
	s->queue.shows = true;
	int r = queue_choice_resolve(&s->queue, &s->err);
	if (r == 0)
		r = s->all ? open_all(s) : open_one(s);
	if (r == 0 && s->watch && isatty(STDOUT_FILENO) && !s->json)
		(void)!write(STDOUT_FILENO, "\033[2J", 4);
	if (r == 0)
		r = print(s);
	if (r == 0 && s->watch)
		r = watch(s);
	for (size_t i = 0; i < s->num_queues; i++)
		follow_close(&s->queues[i]);
	free(s->queues);
	/* The reader has closed the pipe. */
	return r == -EPIPE ? 0 : r;
}

static int main_status(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "[ID…]", "List the jobs of a queue.", children, NULL, NULL};
	struct status s = {0};
	command_parse(&argp, argc, argv, &s);
	signal(SIGPIPE, SIG_IGN);
	int r = status(&s);
	int code = r < 0 ? command_fail(&s.err, r) : EXIT_DONE;
	job_selection_finish(&s.selection);
	id_list_finish(&s.ids);
	queue_choice_finish(&s.queue);
	return code;
}

const struct command cmd_status = {"status", "List the jobs", main_status};
