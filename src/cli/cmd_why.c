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
#include "queue/input/id_list.h"
#include "queue/runner/why.h"

enum { OPTION_GPUS = 0x200 };

struct why {
	struct queue_choice queue;
	struct id_list ids;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"gpus", OPTION_GPUS, "SPEC", 0, "Which GPUs, where nobody runs the queue", 1},
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
		r = id_list_parse(arg, &w->ids, &w->err);
		break;
	case ARGP_KEY_END:
		if (w->ids.count == 0)
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
		r = follow_open(w->queue.journal_path, false, &f, &w->err);
	if (r < 0)
		return r;
	const struct config *c = &w->queue.config;
	struct runner_rules rules = {.min_free_mem_mb = (int64_t)(c->min_free_mem_bytes >> 20),
		.jobs_per_gpu = (int)c->jobs_per_gpu,
		.gpus = c->gpus};
	for (size_t i = 0; r == 0 && i < w->ids.count; i++) {
		cleanup_(text_finish) struct text t = {0};
		const struct job *job = jobs_find(&f.jobs, w->ids.ids[i]);
		if (!job) {
			r = error_set(&w->err, -ENOENT, "job %" PRIu64 ": there is no such job", w->ids.ids[i]);
			break;
		}
		r = why_write(&f, job, &rules, NULL, &t, &w->err);
		fputs(text_string(&t), stdout);
	}
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
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code;
}

const struct command cmd_why = {"why", "Say what a job waits for", main_why};
