/* SPDX-License-Identifier: MIT */
/* gpuq pause and gpuq resume: the queue, or running jobs. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/done_line.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/job_selection.h"
#include "queue/input/pause.h"
#include "queue/journal/follow.h"

enum { OPTION_ALL = 0x200 };

struct pause_command {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids;
	bool paused; /* pause, not resume */
	bool all;
	size_t num_named, num_refused;
	struct id_list refused;
	struct gd_error err;
};

static const struct argp_option pause_options[] = {
	{"all", OPTION_ALL, 0, 0, "Pause the queue, and suspend all running jobs", 1},
	{0},
};

static const struct argp_option resume_options[] = {
	{"all", OPTION_ALL, 0, 0, "Resume the queue, and all suspended jobs", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pause_command *p = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->queue;
		return 0;
	case OPTION_ALL:
		p->all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&p->selection, arg, &p->err) < 0)
			arguments_error(state, "%s", p->err.message);
		return 0;
	case ARGP_KEY_END:
		if (p->all && p->selection.count > 0)
			argp_error(state, "give either --all or jobs");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* In a set, jobs that the command does not apply to are ignored. */
static void on_refused(void *context, size_t index, const struct gd_error *why)
{
	struct pause_command *p = context;
	(void)id_list_add(&p->refused, p->ids.ids[index]);
	if (index >= p->num_named && (why->code == -EINVAL || why->code == -EALREADY))
		return;
	say_error(why);
	p->num_refused++;
}

static int collect(struct pause_command *p)
{
	struct follow f;
	int r = queue_choice_follow_trusted(&p->queue, &f, &p->err);
	if (r < 0)
		return r;
	r = job_selection_resolve(&p->selection, &f.jobs, &p->ids, &p->num_named, &p->err);
	for (size_t i = 0; r == 0 && p->all && i < f.jobs.count; i++)
		if (f.jobs.by_id[i]->state == JOB_RUNNING && f.jobs.by_id[i]->paused != p->paused &&
			id_list_add(&p->ids, f.jobs.by_id[i]->id) < 0)
			r = error_set(&p->err, -ENOMEM, "cannot select the jobs: out of memory");
	follow_close(&f);
	return r;
}

static int change_queue(struct pause_command *p, struct journal *j)
{
	bool changed;
	int r = p->paused ? 0 : background_check(&p->queue, j->dir_fd, &p->err);
	if (r == 0)
		r = pause_queue(j, p->paused, &changed, &p->err);
	if (r < 0)
		return r;
	if (!changed)
		say(p->paused ? "the queue is already paused" : "the queue is not paused");
	else
		puts(!p->paused  ? "resumed the queue"
			: p->all ? "paused the queue"
				 : "paused the queue; running jobs continue ('gpuq pause --all' suspends them)");
	if (p->paused || !changed)
		return 0;
	return background_start(&p->queue, j->dir_fd, NULL, BACKGROUND_READY_SOON_MS, &p->err);
}

static int say_done(struct pause_command *p)
{
	cleanup_(id_list_finish) struct id_list done = {0};
	int r = 0;
	id_list_sort(&p->refused);
	for (size_t i = 0; r == 0 && i < p->ids.count; i++)
		if (id_list_find(&p->refused, p->ids.ids[i]) == SIZE_MAX)
			r = id_list_add(&done, p->ids.ids[i]);
	id_list_sort(&done);
	if (r == 0 && done.count > 0)
		done_line_print(p->paused ? "paused" : "resumed", &done);
	return r < 0 ? error_set(&p->err, r, "the jobs were changed, but their ids cannot be printed: out of memory")
		     : 0;
}

static int change(struct pause_command *p)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	size_t done = 0;
	int r = queue_choice_resolve(&p->queue, &p->err);
	if (r == 0)
		r = collect(p);
	if (r == 0)
		r = queue_choice_open(&p->queue, &j, &p->err);
	if (r == 0 && (p->all || p->selection.count == 0))
		r = change_queue(p, j);
	if (r == 0 && p->ids.count)
		r = pause_jobs(j, p->paused, &p->ids, on_refused, p, &done, &p->err);
	if (r == 0 && done > 0)
		r = say_done(p);
	return r;
}

static int run(int argc, char **argv, bool paused, const struct argp *argp)
{
	struct pause_command p = {.paused = paused};
	command_parse(argp, argc, argv, &p);
	int r = change(&p);
	int code = r < 0 ? command_fail(&p.err, r) : p.num_refused ? EXIT_WORK_FAILED : EXIT_DONE;
	id_list_finish(&p.ids);
	id_list_finish(&p.refused);
	job_selection_finish(&p.selection);
	queue_choice_finish(&p.queue);
	return code;
}

static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};

static int main_pause(int argc, char **argv)
{
	static const struct argp argp = {pause_options, parse, "[ID…]",
		"Pause the queue, so that no job starts, or suspend running jobs.\v"
		"A suspended job keeps its memory and its GPU. The time that it is suspended does not count towards its time limit.",
		children, NULL, NULL};
	return run(argc, argv, true, &argp);
}

static int main_resume(int argc, char **argv)
{
	static const struct argp argp = {
		resume_options, parse, "[ID…]", "Resume the queue, or suspended jobs.", children, NULL, NULL};
	return run(argc, argv, false, &argp);
}

const struct command cmd_pause = {"pause", "Pause the queue, or suspend running jobs", main_pause, 1u << JOB_RUNNING};
const struct command cmd_resume = {"resume", "Resume the queue, or suspended jobs", main_resume, 1u << JOB_RUNNING};
