/* SPDX-License-Identifier: MIT */
/* Actions of views on a queue. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"
#include "cli/background.h"
#include "cli/job_log.h"
#include "cli/queue_view_parts.h"
#include "queue/input/control.h"
#include "queue/journal/environment.h"

/* The view is blocked meanwhile: later errors of the runner are in its log. */
#define START_MS 500

static const enum event events[VIEW_ACTIONS] = {
	[VIEW_CANCEL] = EVENT_CANCEL,
	[VIEW_RETRY] = EVENT_RETRY,
	[VIEW_HOLD] = EVENT_HOLD,
	[VIEW_RELEASE] = EVENT_RELEASE,
	[VIEW_URGENT] = EVENT_URGENT,
};

static int find(struct queue_view *v, uint64_t id, const struct job **ret, struct gd_error *err)
{
	*ret = jobs_find(&v->follow.jobs, id);
	return *ret ? 0 : error_set(err, -ENOENT, "job %" PRIu64 ": there is no such job", id);
}

static void facts(void *context, struct view_facts *ret)
{
	const struct queue_view *v = context;
	*ret = (struct view_facts){.journal = v->follow.path,
		.journal_bytes = (uint64_t)v->follow.reader.offset,
		.bad_lines = v->follow.jobs.bad_lines,
		.first_bad_line = v->follow.jobs.first_bad_line,
		.runner = v->runner,
		.runner_hidden = v->runner_hidden,
		.paused = v->follow.jobs.paused,
		.on_nodes = v->num_node_tallies > 0};
}

/* Only the first refusal is reported. */
static void on_refused(void *context, size_t index, const struct gd_error *why)
{
	struct gd_error *first = context;
	(void)index;
	if (first->code == 0)
		*first = *why;
}

static int act(void *context, enum view_action action, const uint64_t *ids, size_t count, size_t *ret_done,
	struct gd_error *err)
{
	struct queue_view *v = context;
	cleanup_(journal_closep) struct journal *j = NULL;
	cleanup_(freep) uint64_t *copy = calloc(count + 1, sizeof(*copy));
	struct gd_error refused = {0};
	size_t done = 0;
	if (!copy)
		return error_set(err, -ENOMEM, "%s: out of memory", view_action_name(action));
	memcpy(copy, ids, count * sizeof(*copy));
	struct id_list list = {.ids = copy, .count = count, .capacity = count};
	bool needs_runner = action == VIEW_RETRY || action == VIEW_RELEASE;
	int r = queue_choice_open(v->choice, &j, err);
	if (r == 0 && needs_runner)
		r = background_check(v->choice, j->dir_fd, err);
	if (r == 0)
		r = control_jobs(j, events[action], &list, on_refused, &refused, &done, err);
	if (r == 0 && done > 0 && needs_runner)
		r = background_start(v->choice, j->dir_fd, NULL, START_MS, err);
	if (r < 0)
		return r;
	if (done == 0 && refused.code)
		return error_set(err, refused.code < 0 ? refused.code : -EINVAL, "%s", refused.message);
	*ret_done = done;
	return 0;
}

static int why(void *context, uint64_t id, struct text *t, struct gd_error *err)
{
	struct queue_view *v = context;
	const struct queue_view *whole = v->whole ? v->whole : v; /* the view that has the GPUs */
	const struct job *job;
	struct gd_gpu_list *gpus = NULL;
	int r = find(v, id, &job, err);
	if (r < 0)
		return r;
	if (whole->probe && gpu_probe_list(whole->probe, &gpus, NULL) < 0)
		gpus = NULL;
	struct verdicts *verdicts = NULL;
	r = verdicts_open(&v->follow, &whole->rules, gpus, VERDICTS_LOOK, &verdicts, err);
	if (r == 0)
		r = verdicts_explain(verdicts, job, t, err);
	verdicts_close(verdicts);
	gd_gpu_list_free(gpus);
	return r < 0 ? r : text_error(t) ? error_set(err, -ENOMEM, "job %" PRIu64 ": out of memory", id) : 0;
}

/* If others could write the journal, only files of the journal's owner may be shown. */
static int load_environment(const struct queue_view *v, const char *name, char **ret, size_t *ret_size)
{
	uid_t owner = ENVIRONMENT_OF_ANYBODY;
	struct stat journal;
	if (v->follow.dir_fd < 0)
		return -ENOENT;
	if (!trust_is_off() && trust_objection(v->follow.reader.fd)) {
		if (fstat(v->follow.reader.fd, &journal) < 0)
			return -errno;
		owner = journal.st_uid;
	}
	return environment_load(v->follow.dir_fd, name, owner, ret, ret_size);
}

static int environment(void *context, uint64_t id, char **ret, size_t *ret_size, struct gd_error *err)
{
	struct queue_view *v = context;
	const struct job *job;
	int r = find(v, id, &job, err);
	if (r < 0)
		return r;
	r = job->wish->env ? load_environment(v, job->wish->env, ret, ret_size) : -ENOENT;
	if (r == -EPERM)
		return error_set(err, r,
			"environment of job %" PRIu64 ": its file does not belong to the owner of the journal", id);
	return r < 0 ? error_set(err, r, "environment of job %" PRIu64 ": %s", id,
			       r == -ENOENT ? "it was not stored" : error_words(r))
		     : 0;
}

static int open_log(void *context, uint64_t id, unsigned attempt, int *ret_fd, struct gd_error *err)
{
	struct queue_view *v = context;
	const struct job *job;
	int r = find(v, id, &job, err);
	if (r < 0)
		return r;
	const struct job_attempt *a = job->attempts;
	/* Count the attempts; the attempt number in the journal is not trusted. */
	for (unsigned n = job->num_attempts; a && attempt && n > attempt; n--)
		a = a->earlier;
	if (!a || !a->log || attempt > job->num_attempts)
		return error_set(err, -ENOENT, "job %" PRIu64 " has no log yet", id);
	const struct job_log_source source = {.log_dir = v->log_dir,
		.is_named = config_has(&v->choice->config, CONFIG_LOG_DIR),
		.for_everybody = v->choice->for_everybody,
		.journal_fd = v->follow.reader.fd};
	return job_log_open(a->log, id, &source, ret_fd, err);
}

void queue_view_init_actions(struct queue_view *v)
{
	v->actions = (struct view_actions){
		.context = v, .facts = facts, .act = act, .why = why, .environment = environment, .open_log = open_log};
}
