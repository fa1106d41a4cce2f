/* SPDX-License-Identifier: MIT */
/* gpuq why: what a job waits for, GPU by GPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "queue/input/job_selection.h"
#include "queue/runner/verdicts.h"

enum { OPTION_GPUS = 0x200 };

struct why {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids; /* of the selection */
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"gpus", OPTION_GPUS, "SPEC", 0, "Which GPUs, if no runner is active", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct why *w = state->input;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &w->queue;
		return 0;
	case OPTION_GPUS:
		r = config_set(&w->queue.command_line, CONFIG_GPUS, "--gpus", arg, &w->err);
		break;
	case ARGP_KEY_ARG:
		r = job_selection_add(&w->selection, arg, &w->err);
		break;
	case ARGP_KEY_END:
		if (w->selection.count == 0)
			argp_error(state, "which job? 'gpuq status' lists them");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		argp_error(state, "%s", w->err.message);
	return 0;
}

static int why(struct why *w)
{
	struct follow f;
	int r = queue_choice_resolve(&w->queue, &w->err);
	if (r == 0)
		r = queue_choice_follow(&w->queue, false, &f, &w->err);
	if (r < 0)
		return r;
	const struct config *c = &w->queue.config;
	struct runner_rules rules = {
		.min_free_mem_mb = config_min_free_mem_mb(c), .jobs_per_gpu = (int)c->jobs_per_gpu, .gpus = c->gpus};
	struct verdicts *v = NULL;
	r = job_selection_resolve(&w->selection, &f.jobs, &w->ids, NULL, &w->err);
	if (r == 0)
		r = verdicts_open(&f, &rules, NULL, VERDICTS_LOOK, &v, &w->err);
	for (size_t i = 0; r == 0 && i < w->ids.count; i++) {
		cleanup_(text_finish) struct text t = {0};
		const struct job *job = jobs_find(&f.jobs, w->ids.ids[i]);
		if (!job) {
			r = error_set(&w->err, -ENOENT, "job %" PRIu64 ": %s", w->ids.ids[i],
				jobs_absence(&f.jobs, w->ids.ids[i]));
			break;
		}
		r = verdicts_explain(v, job, &t, &w->err);
		fputs(text_string(&t), stdout);
	}
	verdicts_close(v);
	follow_close(&f);
	return r;
}

static int main_why(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {
		options, parse, "ID…", "Says what a job waits for, GPU by GPU.", children, NULL, NULL};
	struct why w = {0};
	command_parse(&argp, argc, argv, &w);
	int r = why(&w);
	int code = r < 0 ? command_fail(&w.err, r) : EXIT_DONE;
	job_selection_finish(&w.selection);
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code;
}

const struct command cmd_why = {"why", "Say what a job waits for", main_why};
