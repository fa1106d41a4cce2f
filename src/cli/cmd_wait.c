/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"
#include "queue/journal/trust.h"

struct wait {
	struct queue_choice queue;
	struct id_list ids; /* ascending */
	int *codes;         /* with which each of them ended, or NOT_OVER */
	size_t num_over;    /* of the first ids; not looked at again */
	int code;           /* of those */
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
		if (id_list_parse(arg, &w->ids, &w->err) < 0)
			argp_error(state, "%s", w->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

#define NOT_OVER (-1)

static int exit_code_of(const struct job *job)
{
	if (!job_is_final(job))
		return NOT_OVER;
	const struct job_attempt *a = job->attempts;
	if (job->state == JOB_COMPLETED)
		return 0;
	if (a && !job->reason && a->signal)
		return 128 + a->signal;
	return a && !job->reason && a->exit_code > 0 ? a->exit_code : EXIT_WORK_FAILED;
}

/* Noted as it happens: a job that is over may be pruned before we look. */
static void on_change(void *context, struct job *job, int old)
{
	struct wait *w = context;
	size_t i = id_list_find(&w->ids, job->id);
	(void)old;
	if (i != SIZE_MAX)
		w->codes[i] = exit_code_of(job);
}

/* A runner will say so itself, and may try it again. */
static bool is_lost_for_good(struct follow *f, uint64_t id)
{
	if (!follow_is_lost(f, id) || follow_runner(f) != 0)
		return false;
	const struct job *job = jobs_find(&f->jobs, id);
	return job && !job_has_try_left(job);
}

/* The exit code for all of them, NOT_OVER while some are open. */
static int look(struct wait *w, struct follow *f)
{
	for (; w->num_over < w->ids.count; w->num_over++) {
		size_t i = w->num_over;
		if (w->codes[i] == NOT_OVER && is_lost_for_good(f, w->ids.ids[i]))
			w->codes[i] = EXIT_WORK_FAILED;
		if (w->codes[i] == NOT_OVER)
			return NOT_OVER;
		w->code = w->ids.count == 1 ? w->codes[i] : w->code || w->codes[i];
	}
	return w->code;
}

static int begin(struct wait *w, struct follow *f)
{
	bool all = w->ids.count == 0;
	for (size_t i = 0; all && i < f->jobs.count; i++)
		if (!job_is_final(f->jobs.by_id[i]) && id_list_add(&w->ids, f->jobs.by_id[i]->id) < 0)
			return error_set(&w->err, -ENOMEM, "waiting: out of memory");
	id_list_sort(&w->ids);
	w->codes = calloc(w->ids.count + 1, sizeof(*w->codes));
	if (!w->codes)
		return error_set(&w->err, -ENOMEM, "waiting: out of memory");
	for (size_t i = 0; i < w->ids.count; i++) {
		const struct job *job = jobs_find(&f->jobs, w->ids.ids[i]);
		if (!job)
			return error_set(
				&w->err, -ENOENT, "waiting for job %" PRIu64 ": there is no such job", w->ids.ids[i]);
		w->codes[i] = exit_code_of(job);
	}
	f->jobs.on_change = on_change;
	f->jobs.context = w;
	return 0;
}

/* Pruned before its end was seen; with two prunes in a row it can be. */
static int check_there(struct wait *w, const struct follow *f)
{
	for (size_t i = w->num_over; f->reset && i < w->ids.count; i++)
		if (w->codes[i] == NOT_OVER && !jobs_find(&f->jobs, w->ids.ids[i]))
			return error_set(&w->err, -ENOENT, "waiting for job %" PRIu64 ": it was pruned", w->ids.ids[i]);
	return 0;
}

/* Scripts act on the answer: a journal that nobody named must be the user's own, as for those who write it. */
static int check_trust(struct wait *w, struct follow *f)
{
	const char *objection = w->queue.objection ? w->queue.objection : trust_objection(f->reader.fd);
	if (objection && !w->queue.trust && !w->queue.jobs_file)
		return trust_refuse(w->queue.given_path, objection, &w->err);
	follow_insist_on_trust(f);
	return 0;
}

static int wait_all(struct wait *w)
{
	struct follow f;
	bool told = false;
	int r = queue_choice_resolve(&w->queue, &w->err);
	if (r == 0)
		r = follow_open(w->queue.journal_path, true, &f, &w->err);
	if (r < 0)
		return r;
	r = check_trust(w, &f);
	if (r == 0)
		r = begin(w, &f);
	int code = NOT_OVER;
	while (r == 0 && (code = look(w, &f)) == NOT_OVER) {
		if (!told && follow_runner(&f) == 0) {
			say("nobody runs this queue now; start a runner with 'gpuq run'");
			told = true;
		}
		follow_wait(&f);
		r = follow_update(&f, &w->err);
		if (r == 0)
			r = check_there(w, &f);
	}
	follow_close(&f);
	return r < 0 ? r : code;
}

static int main_wait(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {NULL, parse, "[ID…]",
		"Waits for jobs, or for all, and ends with the job's exit code; of several: 0, or 1 if one failed.",
		children, NULL, NULL};
	struct wait w = {0};
	argp_err_exit_status = EXIT_WAIT;
	command_parse(&argp, argc, argv, &w);
	int code = wait_all(&w);
	if (code < 0)
		say_error(&w.err);
	free(w.codes);
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code < 0 ? EXIT_WAIT : code;
}

const struct command cmd_wait = {"wait", "Wait for a job, and exit as it did", main_wait};
