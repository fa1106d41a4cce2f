/* SPDX-License-Identifier: MIT */
/*
 * All queues of this user on this machine in one model: each queue has its own view, which puts its jobs there.
 *
 * A queue keeps its number as long as it is shown, and the number is never reused: a selected job never turns into
 * another job. The first number is random, so that the ids in a page that is still open from an earlier server
 * match no job, instead of a wrong one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/queue_view_parts.h"
#include "queue/journal/queue_registry.h"

#define FIND_NS (2 * NS_PER_S) /* how often to check for new and removed queues */

/* ---- Finding queues ----------------------------------------------------------------------- */

static void complain(struct queue_view *v, struct queue_part *part, const struct gd_error *why)
{
	if (!part->failed)
		v->complaint = *why;
	part->failed = true;
}

/* A queue that could not be opened is retried at every check. */
static void open_part(struct queue_view *v, struct queue_part *part)
{
	struct gd_error why = {0};
	if (queue_view_open_part(v, &part->choice, &part->view, &why) < 0)
		complain(v, part, &why);
	else
		part->failed = false;
}

static void close_part(struct queue_view *v, struct queue_part *part)
{
	if (part->view)
		view_forget_queue(v->model, part->view->queue);
	queue_view_close(part->view);
	free(part->choice.journal_path);
}

static bool is_listed(const struct queue_registry *registry, const char *path)
{
	for (size_t i = 0; i < registry->count; i++)
		if (strcmp(registry->paths[i], path) == 0)
			return true;
	return false;
}

static void close_gone(struct queue_view *v, const struct queue_registry *registry)
{
	size_t kept = 0;
	for (size_t i = 0; i < v->num_parts; i++) {
		if (is_listed(registry, v->parts[i].choice.journal_path))
			v->parts[kept++] = v->parts[i];
		else
			close_part(v, &v->parts[i]);
	}
	v->num_parts = kept;
}

static int add_part(struct queue_view *v, const char *path)
{
	for (size_t i = 0; i < v->num_parts; i++)
		if (strcmp(v->parts[i].choice.journal_path, path) == 0)
			return 0;
	char *copy = strdup(path);
	if (!copy || array_reserve(v->parts, &v->parts_capacity, v->num_parts + 1) < 0) {
		free(copy);
		return -ENOMEM;
	}
	/* As if named by --jobs-file, with the settings of this command. */
	struct queue_part part = {.choice = *v->choice};
	part.choice.source = QUEUE_SOURCE_OPTION;
	part.choice.journal_path = copy;
	part.choice.given_path = copy;
	part.choice.found_path = NULL;
	part.choice.skipped = (struct queue_place_skipped){0};
	part.choice.objection = NULL;
	v->parts[v->num_parts++] = part;
	return 0;
}

/* Views point to the choices, which move when the array grows. */
static void point_to_choices(struct queue_view *v)
{
	for (size_t i = 0; i < v->num_parts; i++)
		if (v->parts[i].view)
			v->parts[i].view->choice = &v->parts[i].choice;
}

int queue_view_find_all(struct queue_view *v, struct gd_error *err)
{
	struct queue_registry registry = {0};
	const char *own = v->choice->journal_path;
	int r = queue_registry_list(&registry, own, err);
	if (r == 0) {
		close_gone(v, &registry);
		for (size_t i = 0; r == 0 && i < registry.count; i++)
			r = add_part(v, registry.paths[i]);
		if (r < 0)
			error_set(err, r, "cannot list the queues: %s", error_words(r));
		point_to_choices(v);
		for (size_t i = 0; i < v->num_parts; i++)
			if (!v->parts[i].view)
				open_part(v, &v->parts[i]);
	}
	queue_registry_finish(&registry);
	v->find_ns = clock_now_ns() + FIND_NS;
	return r;
}

void queue_view_close_all(struct queue_view *v)
{
	for (size_t i = 0; i < v->num_parts; i++)
		close_part(v, &v->parts[i]);
	free(v->parts);
	v->parts = NULL;
	v->num_parts = 0;
}

/* ---- Updates ---------------------------------------------------------------------------------- */

static int put_what_follows(struct queue_view *v)
{
	if (v->jobs_version == view_jobs_version(v->model))
		return 0;
	v->jobs_version = view_jobs_version(v->model);
	int r = queue_view_put_work(v);
	return r == 0 && !v->options.no_gpus ? queue_view_put_gpus(v) : r;
}

int queue_view_update_all(struct queue_view *v, struct gd_error *err)
{
	/* If the list cannot be read, the shown queues stay. */
	if (clock_now_ns() >= v->find_ns)
		(void)queue_view_find_all(v, NULL);
	for (size_t i = 0; i < v->num_parts; i++) {
		struct queue_part *part = &v->parts[i];
		struct gd_error why = {0};
		if (!part->view)
			continue;
		if (queue_view_update(part->view, &why) < 0)
			complain(v, part, &why);
		else
			part->failed = false;
	}
	int r = put_what_follows(v);
	if (r < 0)
		return error_set(err, r, "cannot read the queues: %s", error_words(r));
	struct gd_error complaint = v->complaint;
	v->complaint = (struct gd_error){0};
	return complaint.code ? error_set(err, complaint.code, "%s", complaint.message) : 0;
}

/* ---- Actions ---------------------------------------------------------------------------------- */

static struct queue_view *find_part(const struct queue_view *v, uint64_t id)
{
	for (size_t i = 0; i < v->num_parts; i++)
		if (v->parts[i].view && v->parts[i].view->queue == view_id_queue(id))
			return v->parts[i].view;
	return NULL;
}

static int refuse(uint64_t id, struct gd_error *err)
{
	return error_set(err, -ENOENT, "job %" PRIu64 ": its queue is gone", view_id_number(id));
}

static void facts(void *context, struct view_facts *ret)
{
	const struct queue_view *v = context;
	*ret = (struct view_facts){.all_queues = true, .paused = true};
	for (size_t i = 0; i < v->num_parts; i++) {
		const struct queue_view *part = v->parts[i].view;
		if (!part) {
			ret->num_unreadable++;
			continue;
		}
		struct view_facts one;
		part->actions.facts(part->actions.context, &one);
		ret->num_queues++;
		ret->num_runners += one.runner != 0;
		ret->runner = ret->runner ? ret->runner : one.runner;
		ret->runner_hidden = ret->runner_hidden || one.runner_hidden;
		ret->journal_bytes += one.journal_bytes;
		ret->bad_lines += one.bad_lines;
		ret->paused = ret->paused && one.paused;
		ret->on_nodes = ret->on_nodes || one.on_nodes;
	}
	ret->runner_hidden = ret->runner_hidden && ret->runner == 0;
	ret->paused = ret->paused && ret->num_queues > 0;
}

/* Selects the ids that belong to one queue, as job numbers in that queue. */
static size_t numbers_of(unsigned queue, const uint64_t *ids, size_t count, uint64_t *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		if (view_id_queue(ids[i]) == queue)
			ret[n++] = view_id_number(ids[i]);
	return n;
}

/* Returns the first error if no queue could do anything. */
static int act(void *context, enum view_action action, const uint64_t *ids, size_t count, size_t *ret_done,
	struct gd_error *err)
{
	const struct queue_view *v = context;
	cleanup_(freep) uint64_t *numbers = calloc(count + 1, sizeof(*numbers));
	struct gd_error first = {0};
	size_t done = 0;
	if (!numbers)
		return error_set(err, -ENOMEM, "%s: out of memory", view_action_name(action));
	for (size_t i = 0; i < count; i++)
		if (!find_part(v, ids[i]) && !first.code)
			refuse(ids[i], &first);
	for (size_t i = 0; i < v->num_parts; i++) {
		const struct queue_view *part = v->parts[i].view;
		size_t n = part ? numbers_of(part->queue, ids, count, numbers) : 0, some = 0;
		struct gd_error why = {0};
		if (n == 0)
			continue;
		if (part->actions.act(part->actions.context, action, numbers, n, &some, &why) < 0 && !first.code)
			first = why;
		done += some;
	}
	if (done == 0 && first.code)
		return error_set(err, first.code, "%s", first.message);
	*ret_done = done;
	return 0;
}

static int why(void *context, uint64_t id, struct text *t, struct gd_error *err)
{
	const struct queue_view *part = find_part(context, id);
	return part ? part->actions.why(part->actions.context, view_id_number(id), t, err) : refuse(id, err);
}

static int environment(void *context, uint64_t id, char **ret, size_t *ret_size, struct gd_error *err)
{
	const struct queue_view *part = find_part(context, id);
	return part ? part->actions.environment(part->actions.context, view_id_number(id), ret, ret_size, err)
		    : refuse(id, err);
}

static int open_log(void *context, uint64_t id, unsigned attempt, int *ret_fd, struct gd_error *err)
{
	const struct queue_view *part = find_part(context, id);
	return part ? part->actions.open_log(part->actions.context, view_id_number(id), attempt, ret_fd, err)
		    : refuse(id, err);
}

void queue_view_init_all_actions(struct queue_view *v)
{
	v->last_queue = (unsigned)(clock_now_ns() * UINT64_C(0x9E3779B97F4A7C15) >> 44); /* 20 bits */
	v->follow = (struct follow){.watch_fd = -1, .dir_fd = -1, .reader.fd = -1};
	v->actions = (struct view_actions){
		.context = v, .facts = facts, .act = act, .why = why, .environment = environment, .open_log = open_log};
}
