/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/queue_cli.h"
#include "queue/follow.h"

struct wait {
	struct queue_choice queue;
	struct id_list ids;
	size_t num_over; /* of the first ids; not looked at again */
	int code;        /* of those */
	struct gd_error err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct wait *w = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &w->queue;
		return 0;
	case ARGP_KEY_ARG:
		if (cli_parse_ids(arg, &w->ids, &w->err) < 0)
			argp_error(state, "%s", w->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* -1: not over yet. */
static int exit_code_of(struct follow *f, uint64_t id)
{
	bool lost = follow_is_lost(f, id);
	const struct job *job = jobs_find(&f->jobs, id);
	/* A runner will say so itself, and may try it again. */
	if (lost && follow_runner(f) == 0 && !job_has_try_left(job))
		return EXIT_WORK_FAILED;
	if (!job_is_final(job))
		return -1;
	const struct job_attempt *a = job->attempts;
	if (job->state == JOB_COMPLETED)
		return 0;
	if (a && !job->reason && a->signal)
		return 128 + a->signal;
	return a && !job->reason && a->exit_code > 0 ? a->exit_code : EXIT_WORK_FAILED;
}

/* The exit code for all of them, -1 while some are open. */
static int look(struct wait *w, struct follow *f)
{
	for (; w->num_over < w->ids.count; w->num_over++) {
		int code = exit_code_of(f, w->ids.ids[w->num_over]);
		if (code < 0)
			return -1;
		w->code = w->ids.count == 1 ? code : w->code || code;
	}
	return w->code;
}

static int all_open(struct wait *w, const struct follow *f)
{
	if (w->ids.count == 0)
		for (size_t i = 0; i < f->jobs.count; i++)
			if (!job_is_final(f->jobs.by_id[i]) && id_list_add(&w->ids, f->jobs.by_id[i]->id) < 0)
				return error_set(&w->err, -ENOMEM, "waiting: out of memory");
	for (size_t i = 0; i < w->ids.count; i++)
		if (!jobs_find(&f->jobs, w->ids.ids[i]))
			return error_set(
				&w->err, -ENOENT, "waiting for job %" PRIu64 ": there is no such job", w->ids.ids[i]);
	return 0;
}

static int wait_all(struct wait *w)
{
	struct follow f;
	bool told = false;
	int r = queue_choose(&w->queue, &w->err);
	if (r == 0)
		r = follow_open(w->queue.journal_path, true, &f, &w->err);
	if (r < 0)
		return r;
	r = all_open(w, &f);
	int code = -1;
	while (r == 0 && (code = look(w, &f)) < 0) {
		if (!told && follow_runner(&f) == 0) {
			say("nobody runs this queue now; start a runner with 'gpuq run'");
			told = true;
		}
		follow_wait(&f);
		/* What is over is read from the old file before a pruned one is begun. */
		r = follow_update(&f, &w->err);
		if (r == 0 && f.reset)
			for (size_t i = w->num_over; r == 0 && i < w->ids.count; i++)
				if (!jobs_find(&f.jobs, w->ids.ids[i]))
					r = error_set(&w->err, -ENOENT, "waiting for job %" PRIu64 ": it was pruned",
						w->ids.ids[i]);
	}
	follow_close(&f);
	return r < 0 ? r : code;
}

static int main_wait(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {NULL, parse, "[ID…]",
		"Waits for jobs, or for all, and ends with the job's exit code; of several: 0, or 1 if one failed.",
		children, NULL, NULL};
	struct wait w = {0};
	argp_err_exit_status = EXIT_WAIT;
	cli_parse(&argp, argc, argv, &w);
	int code = wait_all(&w);
	if (code < 0)
		say_error(&w.err);
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code < 0 ? EXIT_WAIT : code;
}

const struct command cmd_wait = {"wait", "Wait for a job, and exit as it did", main_wait};
