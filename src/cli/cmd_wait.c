/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_put.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/obstacles.h"
#include "cli/queue_choice.h"
#include "cli/say.h"
#include "queue/input/job_selection.h"
#include "queue/journal/archive.h"
#include "queue/journal/follow.h"
#include "queue/journal/trust.h"
#include "queue/runner/published.h"

struct wait {
	struct queue_choice queue;
	struct job_selection selection;
	struct id_list ids; /* ids of the selection, ascending */
	int *codes;         /* exit code of each job, or NOT_OVER */
	size_t num_over;    /* this many of the first ids have ended; not checked again */
	int code;           /* exit code of these num_over jobs */
	bool single;        /* waiting for one job: exit with its code */
	bool unknown;       /* one of these num_over jobs is unknown, or jobs were lost */
	bool told;          /* the user was told that no runner is active */
	bool any;           /* wait for one job only */
	bool json;
	bool timed_out;
	uint64_t limit_ms; /* 0: none */
	struct obstacles obstacles;
	struct gd_error err;
};

enum { OPTION_TIMEOUT = 0x200, OPTION_ANY, OPTION_JSON };

static const struct argp_option options[] = {
	{"timeout", OPTION_TIMEOUT, "TIME", 0, "Give up after this time, with exit code 124: 90s, 2h", 1},
	{"any", OPTION_ANY, 0, 0, "Wait until one job has ended, print its id, and exit with its exit code", 1},
	{"json", OPTION_JSON, 0, 0, "At the end, print a JSON object with the exit code of each job", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct wait *w = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &w->queue;
		return 0;
	case OPTION_ANY:
		w->any = true;
		return 0;
	case OPTION_JSON:
		w->json = true;
		return 0;
	case OPTION_TIMEOUT:
		if (units_parse_duration(arg, &w->limit_ms, &w->err) < 0)
			arguments_error(state, "--timeout: %s", w->err.message);
		if (w->limit_ms == 0)
			argp_error(state, "--timeout: must be greater than 0");
		return 0;
	case ARGP_KEY_ARG:
		if (job_selection_add(&w->selection, arg, &w->err) < 0)
			arguments_error(state, "%s", w->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

#define NOT_OVER   (-1)
#define IS_UNKNOWN (-2) /* a record of the job was lost; no runner starts it */

static int exit_code_of(const struct job *job)
{
	if (job->state == JOB_UNKNOWN)
		return IS_UNKNOWN;
	if (!job_is_final(job))
		return NOT_OVER;
	const struct job_attempt *a = job->attempts;
	if (job->state == JOB_COMPLETED)
		return 0;
	if (a && !job->reason && a->signal)
		return 128 + a->signal;
	return a && !job->reason && a->exit_code > 0 ? a->exit_code : EXIT_WORK_FAILED;
}

/* Records the exit code at once: an ended job may be pruned before we check. */
static void on_change(void *context, struct job *job, int old)
{
	struct wait *w = context;
	size_t i = id_list_find(&w->ids, job->id);
	(void)old;
	if (i != SIZE_MAX)
		w->codes[i] = exit_code_of(job);
}

/* False while a runner is active: it will record the loss itself, and may retry the job. */
static bool is_lost_for_good(struct follow *f, uint64_t id)
{
	const struct job *job = jobs_find(&f->jobs, id);
	if (job && follow_lease_is_left(f, job) && follow_runner(f) == 0)
		return true;
	if (!follow_is_lost(f, id) || follow_runner(f) != 0)
		return false;
	job = jobs_find(&f->jobs, id);
	return job && !job_has_try_left(job);
}

/* The exit code for all jobs; NOT_OVER while some have not ended. */
static int look(struct wait *w, struct follow *f)
{
	for (; w->num_over < w->ids.count; w->num_over++) {
		size_t i = w->num_over;
		if (w->codes[i] == NOT_OVER && is_lost_for_good(f, w->ids.ids[i]))
			w->codes[i] = EXIT_WORK_FAILED;
		if (w->codes[i] == NOT_OVER)
			return NOT_OVER;
		if (w->codes[i] == IS_UNKNOWN) {
			say("job %" PRIu64 " may or may not have run: its record was lost; use 'gpuq retry %" PRIu64
			    "' or 'gpuq cancel %" PRIu64 "'",
				w->ids.ids[i], w->ids.ids[i], w->ids.ids[i]);
			w->unknown = true;
			continue;
		}
		w->code = w->single ? w->codes[i] : w->code || w->codes[i];
	}
	return w->unknown ? EXIT_WAIT : w->code;
}

/* The exit code of the first ended job; NOT_OVER if no job has ended. */
static int look_for_any(struct wait *w, struct follow *f)
{
	for (size_t i = 0; i < w->ids.count; i++) {
		if (w->codes[i] == NOT_OVER && is_lost_for_good(f, w->ids.ids[i]))
			w->codes[i] = EXIT_WORK_FAILED;
		if (w->codes[i] == NOT_OVER)
			continue;
		if (!w->json)
			printf("%" PRIu64 "\n", w->ids.ids[i]);
		return w->codes[i] == IS_UNKNOWN ? EXIT_WAIT : w->codes[i];
	}
	return w->ids.count ? NOT_OVER : EXIT_DONE;
}

/* If jobs were lost, it is unknown whether the queue is done, until the user repairs it. */
static void look_for_lost(struct wait *w, const struct follow *f)
{
	uint64_t lost = f->jobs.damaged ? number_set_size(&f->jobs.lost_ids) : 0;
	if (lost == 0)
		return;
	say("journal '%s' is damaged: the 'add' record%s of %" PRIu64 " job%s %s lost; run 'gpuq verify' for details",
		f->path, lost == 1 ? "" : "s", lost, lost == 1 ? "" : "s", lost == 1 ? "was" : "were");
	w->unknown = true;
}

/* All jobs except those completed before: the exit code is that of the whole queue. */
static int add_all(struct wait *w, const struct jobs *js)
{
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		bool wanted = !job_is_final(job) || (job->state != JOB_COMPLETED && !w->any);
		if (wanted && id_list_add(&w->ids, job->id) < 0)
			return error_set(&w->err, -ENOMEM, "cannot wait: out of memory");
	}
	return 0;
}

static int begin(struct wait *w, struct follow *f)
{
	bool all = w->selection.count == 0;
	int r = all ? add_all(w, &f->jobs) : job_selection_resolve(&w->selection, &f->jobs, &w->ids, NULL, &w->err);
	if (r < 0)
		return r;
	if (all)
		look_for_lost(w, f);
	/* Ended jobs of the queue count; otherwise the exit code would depend on when the wait began. */
	w->single = all ? f->jobs.count == 1 : w->ids.count == 1;
	id_list_sort(&w->ids);
	w->codes = calloc(w->ids.count + 1, sizeof(*w->codes));
	if (!w->codes)
		return error_set(&w->err, -ENOMEM, "cannot wait: out of memory");
	for (size_t i = 0; i < w->ids.count; i++) {
		const struct job *job = jobs_find(&f->jobs, w->ids.ids[i]);
		if (!job)
			return error_set(&w->err, -ENOENT, "cannot wait for job %" PRIu64 ": %s", w->ids.ids[i],
				jobs_absence(&f->jobs, w->ids.ids[i]));
		w->codes[i] = exit_code_of(job);
	}
	f->jobs.on_change = on_change;
	f->jobs.context = w;
	return 0;
}

static bool is_pruned(const struct wait *w, const struct follow *f, size_t i)
{
	return w->codes[i] == NOT_OVER && !jobs_find(&f->jobs, w->ids.ids[i]);
}

/* With two prunes in a row, a job can be pruned before its end was seen: then it is in the archive. */
static int find_pruned(struct wait *w, const struct follow *f)
{
	struct jobs archived;
	size_t i = w->num_over;
	int r;
	while (i < w->ids.count && !is_pruned(w, f, i))
		i++;
	if (!f->reset || i == w->ids.count)
		return 0;
	if ((r = archive_read(f->path, f->reader.checked, &archived, &w->err)) < 0)
		return r;
	for (; r == 0 && i < w->ids.count; i++) {
		const struct job *job = jobs_find(&archived, w->ids.ids[i]);
		if (is_pruned(w, f, i) && job)
			w->codes[i] = exit_code_of(job);
		if (is_pruned(w, f, i))
			r = error_set(
				&w->err, -ENOENT, "cannot wait for job %" PRIu64 ": it was pruned", w->ids.ids[i]);
	}
	jobs_finish(&archived);
	return r;
}

/* A named journal is the choice of the user. */
#define NAME_IT "name it with --jobs-file to wait for its jobs"

/* Refuses a journal of another user before it is read, because it may be huge. check_trust() checks the file that was
 * read. */
static int check_owner(struct wait *w)
{
	cleanup_(closep) int fd = -1;
	if (w->queue.trust || w->queue.jobs_file)
		return 0;
	fd = open(w->queue.journal_path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? 0 : trust_check(fd, w->queue.journal_path, NAME_IT, &w->err);
}

/* Scripts act on the exit code: a journal that was not named explicitly must belong to the user, as for writers. */
static int check_trust(struct wait *w, struct follow *f)
{
	struct gd_error why = {0};
	if (w->queue.trust)
		return 0;
	int r = follow_insist_on_trust(f, &why);
	if (r == 0 || w->queue.jobs_file)
		return 0;
	return error_set(&w->err, r, "%s%s", why.message, r == -EPERM ? ", or " NAME_IT : "");
}

/* Reported results must survive a power cut; the runner's own sync may not have finished. */
static int sync_reported(struct wait *w, const struct follow *f)
{
	/* EINVAL, EROFS: the file system does not support sync, or there is nothing to sync. */
	if (f->reader.fd < 0 || fdatasync(f->reader.fd) == 0 || errno == EINVAL || errno == EROFS)
		return 0;
	return error_set(&w->err, -errno, "cannot sync journal '%s': %s", f->path, error_words(errno));
}

/* Reports each obstacle once. If no runner could start the remaining jobs, waiting would never end. */
static int look_ahead(struct wait *w, struct follow *f)
{
	enum obstacles_found found;
	bool runs = follow_runner(f) != 0 || follow_runner_is_hidden(f);
	int r = obstacles_tell(&w->obstacles, f, &w->ids, &found, &w->err);
	if (r < 0)
		return r;
	if (found == OBSTACLES_ALL && !runs && follow_runner(f) == 0)
		return error_set(&w->err, -ENODEV,
			"cannot wait: no runner is active, and the last one could not start the remaining jobs");
	if (found == OBSTACLES_NONE && !runs && !w->told && !w->obstacles.told.count) {
		say("no runner is active; start one with 'gpuq run%s'",
			f->dir_fd >= 0 && published_is_cluster(f->dir_fd) ? " --slurm" : "");
		w->told = true;
	}
	return 0;
}

static int give_up(struct wait *w)
{
	char limit[UNITS_ROOM];
	say("giving up after %s: %s", units_format_duration(w->limit_ms, limit),
		w->any ? "no job has ended" : "not all jobs have ended");
	w->timed_out = true;
	return EXIT_WAIT_TIMEOUT;
}

static void put_job(struct text *t, uint64_t id, int code)
{
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)id);
	json_put_bool(t, "over", code != NOT_OVER);
	if (code >= 0)
		json_put_int(t, "exit_code", code);
	else
		json_put_null(t, "exit_code");
	json_close(t, '}');
}

static int print_json(struct wait *w, int code)
{
	cleanup_(text_finish) struct text t = {0};
	json_open(&t, NULL, '{');
	json_put_int(&t, "exit_code", code);
	json_put_bool(&t, "timed_out", w->timed_out);
	json_open(&t, "jobs", '[');
	for (size_t i = 0; i < w->ids.count; i++)
		put_job(&t, w->ids.ids[i], w->codes[i]);
	json_close(&t, ']');
	json_close(&t, '}');
	if (text_error(&t))
		return error_set(&w->err, -ENOMEM, "cannot wait: out of memory");
	puts(text_string(&t));
	return 0;
}

static int wait_all(struct wait *w)
{
	struct follow f;
	const char *variable = getenv("GPUQ_JOBS_FILE");
	/* Ignore a refused configuration only if it cannot name the queue: scripts must not wait for another one. */
	w->queue.shows = w->queue.jobs_file || (variable && *variable);
	int r = queue_choice_resolve(&w->queue, &w->err);
	if (r == 0)
		r = check_owner(w);
	if (r == 0)
		r = queue_choice_follow(&w->queue, true, &f, &w->err);
	if (r < 0)
		return r;
	r = check_trust(w, &f);
	if (r == 0)
		r = begin(w, &f);
	int code = NOT_OVER;
	uint64_t until = clock_now_ns() + w->limit_ms * NS_PER_MS;
	while (r == 0 && (code = w->any ? look_for_any(w, &f) : look(w, &f)) == NOT_OVER) {
		r = look_ahead(w, &f);
		if (r < 0)
			break;
		int left_ms = w->limit_ms ? clock_ms_until(until, clock_now_ns()) : INT_MAX;
		if (left_ms <= 0) {
			code = give_up(w);
			break;
		}
		follow_wait_at_most(&f, left_ms);
		r = follow_update(&f, &w->err);
		if (r == 0)
			r = find_pruned(w, &f);
	}
	if (r == 0)
		r = sync_reported(w, &f);
	if (r == 0 && w->json)
		r = print_json(w, code);
	follow_close(&f);
	return r < 0 ? r : code;
}

static int main_wait(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "[ID…]",
		"Wait for the given jobs, or for all. Exits with the job's exit code; with several jobs: 0, or 1 if one failed or was cancelled.",
		children, NULL, NULL};
	struct wait w = {0};
	argp_err_exit_status = EXIT_WAIT;
	command_parse(&argp, argc, argv, &w);
	int code = wait_all(&w);
	if (code < 0)
		say_error(&w.err);
	free(w.codes);
	obstacles_finish(&w.obstacles);
	job_selection_finish(&w.selection);
	id_list_finish(&w.ids);
	queue_choice_finish(&w.queue);
	return code < 0 ? EXIT_WAIT : code;
}

const struct command cmd_wait = {"wait", "Wait for jobs, and exit with their exit code", main_wait};
