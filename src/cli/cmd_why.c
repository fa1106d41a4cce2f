/* SPDX-License-Identifier: MIT */
/* gpuq why: explains what a job waits for, GPU by GPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json_put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/status_parts.h"
#include "queue/input/job_selection.h"
#include "queue/runner/verdicts.h"

enum { OPTION_GPUS = 0x200, OPTION_JSON };

struct why {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids; /* ids of the selection */
	bool json;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"gpus", OPTION_GPUS, "SPEC", 0, "Which GPUs to consider if no runner is active", 1},
	{"json", OPTION_JSON, 0, 0, "Print a JSON array of objects", 1},
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
	case OPTION_JSON:
		w->json = true;
		return 0;
	case ARGP_KEY_ARG:
		r = job_selection_add(&w->selection, arg, &w->err);
		break;
	case ARGP_KEY_END:
		if (w->selection.count == 0)
			argp_error(state, "no job given; 'gpuq status' lists all jobs, @ is the last one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		arguments_error(state, "%s", w->err.message);
	return 0;
}

/* ---- JSON ------------------------------------------------------------------------------- */

static void put_gpus(struct text *t, const struct verdicts *v, const struct scheduler_verdict *verdict)
{
	size_t count;
	const struct gd_gpu *const *gpus = verdicts_gpus(v, &count);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < verdict->num_gpus && i < count; i++) {
		json_open(t, NULL, '{');
		json_put_int(t, "index", gpus[i]->index);
		json_put_string(t, "reason", placement_reason_name(verdict->gpus[i].reason));
		if (verdict->gpus[i].job)
			json_put_int(t, "job", (int64_t)verdict->gpus[i].job);
		else
			json_put_null(t, "job");
		json_close(t, '}');
	}
	json_close(t, ']');
}

static void put_lines(struct text *t, const char *lines)
{
	json_open(t, "lines", '[');
	for (size_t size; *lines; lines += size + (lines[size] == '\n')) {
		size = strcspn(lines, "\n");
		json_put_bytes(t, NULL, lines, size);
	}
	json_close(t, ']');
}

static int put_object(struct text *t, struct verdicts *v, const struct job *job, const char *lines)
{
	struct scheduler_verdict verdict = {.answer = SCHEDULER_UNKNOWN};
	int r = job->state == JOB_PENDING ? verdicts_get(v, job, &verdict) : 0;
	if (r < 0)
		return r;
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)job->id);
	json_put_string(t, "status", job_state_name((enum job_state)job->state));
	if (job->state == JOB_PENDING)
		json_put_string(t, "answer", scheduler_answer_name(verdict.answer));
	else
		json_put_null(t, "answer");
	if (verdict.answer == SCHEDULER_BLOCKED && verdict.after)
		json_put_int(t, "after", (int64_t)verdict.after->id);
	else
		json_put_null(t, "after");
	put_gpus(t, v, &verdict);
	r = status_put_wait(t, job, v);
	put_lines(t, lines);
	json_close(t, '}');
	return r;
}

/* ---- The command -------------------------------------------------------------------------- */

static int answer(struct why *w, struct verdicts *v, const struct job *job, struct text *out)
{
	cleanup_(text_finish) struct text lines = {0};
	int r = verdicts_explain(v, job, &lines, &w->err);
	if (r < 0)
		return r;
	if (!w->json)
		text_append(out, text_string(&lines), lines.length);
	else if ((r = put_object(out, v, job, text_string(&lines))) < 0)
		return error_set(&w->err, r, "cannot read the queue: %s", error_words(r));
	return 0;
}

static int why(struct why *w)
{
	cleanup_(text_finish) struct text out = {0};
	struct follow f;
	w->queue.shows = true;
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
	if (w->json)
		json_open(&out, NULL, '[');
	for (size_t i = 0; r == 0 && i < w->ids.count; i++) {
		const struct job *job = jobs_find(&f.jobs, w->ids.ids[i]);
		if (!job) {
			r = error_set(&w->err, -ENOENT, "job %" PRIu64 ": %s", w->ids.ids[i],
				jobs_absence(&f.jobs, w->ids.ids[i]));
			break;
		}
		r = answer(w, v, job, &out);
	}
	if (w->json && r == 0) {
		json_close(&out, ']');
		text_append_char(&out, '\n');
	}
	/* Without --json, also print the answers before the failed one. */
	if (!w->json || r == 0)
		fputs(text_string(&out), stdout);
	verdicts_close(v);
	follow_close(&f);
	return r;
}

static int main_why(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {
		options, parse, "ID…", "Explain what a job waits for, GPU by GPU.", children, NULL, NULL};
	struct why w = {0};
	command_parse(&argp, argc, argv, &w);
	int r = why(&w);
	int code = r < 0 ? command_fail(&w.err, r) : EXIT_DONE;
	job_selection_finish(&w.selection);
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code;
}

const struct command cmd_why = {"why", "Explain what a job waits for", main_why, 1u << JOB_PENDING | 1u << JOB_HELD};
