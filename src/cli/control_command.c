/* SPDX-License-Identifier: MIT */
#include "cli/control_command.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/done_line.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/control.h"
#include "queue/input/job_selection.h"
#include "queue/journal/follow.h"
#include "queue/runner/published.h"

struct control_command {
	struct queue_choice queue;
	enum event event;
	bool all, failed, cancelled; /* --all; --failed and --cancelled, which are filters if jobs are named */
	struct job_selection selection;
	struct id_list ids; /* the jobs that were named, then those of groups and options */
	size_t num_named;
	size_t num_refused;
	struct id_list refused; /* includes jobs of sets, for which a refusal is not an error */
	bool quiet;
	struct gd_error err;
};

static const struct argp_option common_options[] = {
	{"quiet", 'q', 0, 0, "Do not print what was done", 2},
	{0},
};

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct control_command *c = state->input;
	(void)arg;
	if (key != 'q')
		return ARGP_ERR_UNKNOWN;
	c->quiet = true;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct control_command *c = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->queue;
		state->child_inputs[1] = c;
		return 0;
	case CONTROL_COMMAND_FAILED:
		c->failed = true;
		return 0;
	case CONTROL_COMMAND_CANCELLED:
		c->cancelled = true;
		return 0;
	case CONTROL_COMMAND_ALL:
		c->all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&c->selection, arg, &c->err) < 0)
			arguments_error(state, "%s", c->err.message);
		return 0;
	case ARGP_KEY_END:
		if (c->selection.count > 0 && c->all)
			argp_error(state, "give either --all or jobs");
		if (c->selection.count == 0 && !c->failed && !c->cancelled && !c->all)
			argp_error(state, "no job given; 'gpuq status' lists all jobs, @ is the last one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool has_wanted_state(const struct control_command *c, const struct job *job)
{
	return (c->failed && job->state == JOB_FAILED) || (c->cancelled && job->state == JOB_CANCELLED) ||
	       (c->all && !job_is_final(job));
}

/* --failed and --cancelled with jobs: keeps only the jobs in these states. */
static void filter(struct control_command *c, const struct jobs *js)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->ids.count; i++) {
		const struct job *job = jobs_find(js, c->ids.ids[i]);
		if (job && has_wanted_state(c, job))
			c->ids.ids[kept++] = c->ids.ids[i];
	}
	c->ids.count = kept;
	c->num_named = 0;
}

/* The jobs of the selection and of the options. Does not create a missing journal. */
static int collect(struct control_command *c)
{
	struct follow f;
	bool is_there = access(c->queue.journal_path, F_OK) == 0, by_state = c->all || c->failed || c->cancelled;
	if (!by_state && is_there && job_selection_is_plain(&c->selection))
		return job_selection_resolve(&c->selection, NULL, &c->ids, &c->num_named, &c->err);
	int r = queue_choice_follow_trusted(&c->queue, &f, &c->err);
	if (r < 0)
		return r;
	r = job_selection_resolve(&c->selection, &f.jobs, &c->ids, &c->num_named, &c->err);
	if (r < 0) {
		follow_close(&f);
		return r;
	}
	if (by_state && c->selection.count > 0)
		filter(c, &f.jobs);
	for (size_t i = 0; r == 0 && by_state && c->selection.count == 0 && i < f.jobs.count; i++)
		if (has_wanted_state(c, f.jobs.by_id[i]))
			r = id_list_add(&c->ids, f.jobs.by_id[i]->id);
	follow_close(&f);
	return r < 0 ? error_set(&c->err, r, "cannot select the jobs: out of memory") : 0;
}

static void on_refused(void *context, size_t index, const struct gd_error *why)
{
	struct control_command *c = context;
	if (why->code != -ETIMEDOUT)
		(void)id_list_add(&c->refused, c->ids.ids[index]);
	/* For a job of a set, it is not an error if the command does not apply to its state. */
	if (index >= c->num_named && why->code != -ETIMEDOUT)
		return;
	say_error(why);
	c->num_refused++;
}

static int say_done(struct control_command *c, const char *words)
{
	cleanup_(id_list_finish) struct id_list done = {0};
	int r = 0;
	id_list_sort(&c->refused);
	for (size_t i = 0; r == 0 && i < c->ids.count; i++)
		if (id_list_find(&c->refused, c->ids.ids[i]) == SIZE_MAX)
			r = id_list_add(&done, c->ids.ids[i]);
	id_list_sort(&done);
	if (r == 0 && done.count > 0)
		done_line_print(words, &done);
	return r < 0 ? error_set(&c->err, r, "the jobs were changed, but their ids cannot be printed: out of memory")
		     : 0;
}

/* Explains why no job was selected. */
static void say_nothing(const struct control_command *c)
{
	if (c->all)
		say("nothing to do: all jobs have ended");
	else
		say("nothing to do: %s %s%s%s", c->selection.count ? "none of these jobs" : "no job",
			c->failed ? "has failed" : "", c->failed && c->cancelled ? " or " : "",
			c->cancelled ? "was cancelled" : "");
}

static int control(struct control_command *c, const char *words)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	size_t done = 0;
	int r = queue_choice_resolve(&c->queue, &c->err);
	if (r == 0)
		r = collect(c);
	if (r == 0 && c->ids.count == 0)
		say_nothing(c);
	if (r < 0 || c->ids.count == 0)
		return r;
	bool needs_runner = c->event == EVENT_RETRY || c->event == EVENT_RELEASE;
	r = queue_choice_open(&c->queue, &j, &c->err);
	if (r == 0 && needs_runner)
		r = background_check(&c->queue, j->dir_fd, &c->err);
	if (r == 0)
		r = control_jobs(j, c->event, &c->ids, on_refused, c, &done, &c->err);
	if (r == 0 && done == 0 && c->num_refused == 0 && !job_selection_is_plain(&c->selection))
		say("nothing to do: '%s' does not apply to the state of any of these jobs",
			record_event_name(c->event));
	if (r == 0 && done > 0 && !c->quiet)
		r = say_done(c, words);
	if (r < 0 || done == 0)
		return r;
	if (c->event == EVENT_CANCEL && published_is_cluster(j->dir_fd) && !background_has_runner(j->dir_fd))
		say("no 'gpuq run --slurm' is active: jobs that run on nodes continue until it runs again");
	if (needs_runner)
		r = background_start(&c->queue, j->dir_fd, NULL, BACKGROUND_READY_SOON_MS, &c->err);
	return r;
}

int control_command_main(
	int argc, char **argv, enum event event, const char *done, const struct argp_option *options, const char *doc)
{
	static const struct argp common = {.options = common_options, .parser = parse_common};
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {&common, 0, NULL, 2}, {0}};
	/* The options select jobs without ids. */
	struct argp argp = {options, parse, options ? "[ID…]" : "ID…", doc, children, NULL, NULL};
	struct control_command c = {.event = event};
	command_parse(&argp, argc, argv, &c);
	int r = control(&c, done);
	int code = r < 0 ? command_fail(&c.err, r) : c.num_refused ? EXIT_WORK_FAILED : EXIT_DONE;
	job_selection_finish(&c.selection);
	id_list_finish(&c.ids);
	id_list_finish(&c.refused);
	queue_choice_finish(&c.queue);
	return code;
}
