/* SPDX-License-Identifier: MIT */
/* gpuq edit: changes jobs that have not started. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/done_line.h"
#include "cli/exit_code.h"
#include "cli/job_argp.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/edit.h"

enum { OPTION_COMMAND = 0x200, OPTION_NO_START };

struct edit_command {
	struct queue_choice queue;
	struct job_selection jobs;
	struct edit edit;
	bool no_start;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"command", OPTION_COMMAND, "COMMAND", 0, "The new command, as shell text", 1},
	{"no-start", OPTION_NO_START, 0, 0, "Do not start a runner in the background", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct edit_command *e = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &e->edit.options;
		state->child_inputs[1] = &e->queue;
		return 0;
	case OPTION_COMMAND:
		if (!*arg)
			argp_error(state, "--command: empty command");
		e->edit.command = arg;
		return 0;
	case OPTION_NO_START:
		e->no_start = true;
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&e->jobs, arg, &e->err) < 0)
			arguments_error(state, "%s", e->err.message);
		return 0;
	case ARGP_KEY_END:
		if (e->jobs.count == 0)
			argp_error(state, "no job given; 'gpuq status' lists all jobs, @ is the last one");
		if (!e->edit.options.set && !e->edit.command)
			argp_error(state, "no change given, for example: gpuq edit 12 --mem 20G");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int check_runner(struct edit_command *e, const struct journal *j)
{
	struct gd_error why;
	int r = e->no_start ? 0 : background_check(&e->queue, j->dir_fd, &why);
	return r < 0 ? error_set(&e->err, r, "%s, or use --no-start", why.message) : 0;
}

static int edit(struct edit_command *e)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	cleanup_(edit_result_finish) struct edit_result result = {0};
	int r = queue_choice_resolve(&e->queue, &e->err);
	if (r == 0 && access(e->queue.journal_path, F_OK) < 0)
		return error_set(
			&e->err, -errno, "cannot open journal '%s': %s", e->queue.journal_path, error_words(errno));
	if (r == 0)
		r = queue_choice_open(&e->queue, &j, &e->err);
	if (r == 0)
		r = check_runner(e, j);
	if (r == 0)
		r = edit_jobs(j, &e->jobs, &e->edit, &result, &e->err);
	if (r == 0 && result.done == 0)
		return error_set(&e->err, -EALREADY, "no job was changed: none of these jobs is pending or held");
	if (r == 0) {
		id_list_sort(&result.ids);
		done_line_print("edited", &result.ids);
	}
	if (r < 0 || result.pending == 0 || e->no_start)
		return r;
	/* A runner that could not start the job before may have exited. */
	return background_start(&e->queue, j->dir_fd, NULL, BACKGROUND_READY_SOON_MS, &e->err);
}

static int main_edit(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&job_edit_argp, 0, NULL, 2}, {&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "ID…",
		"Change jobs that have not started.\v"
		"Options that are not given stay unchanged. An empty value removes a setting: --after ''. A job that has started cannot be changed.",
		children, NULL, NULL};
	struct edit_command e = {0};
	command_parse(&argp, argc, argv, &e);
	int r = edit(&e);
	int code = r < 0 ? command_fail(&e.err, r) : EXIT_DONE;
	job_selection_finish(&e.jobs);
	job_options_finish(&e.edit.options);
	queue_choice_finish(&e.queue);
	return code;
}

const struct command cmd_edit = {
	"edit", "Change jobs that have not started", main_edit, 1u << JOB_PENDING | 1u << JOB_HELD};
