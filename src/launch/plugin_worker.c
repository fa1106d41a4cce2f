/* SPDX-License-Identifier: MIT */
/* A plug-in: loaded in the worker and nowhere else, its hooks behind ours. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch/plugin_inspect.h"
#include "launch/worker_private.h"

#define LOAD_MS 30000 /* large libraries from a cold disk */

/* In a worker: the plug-in's own. */
static const struct gd_worker_ops *loaded;

static int setup(struct gd_worker *w, void **ret_state)
{
	struct gd_error err = {0};
	int r = plugin_load(launch_worker_current()->plugin, &loaded, &err);
	if (r < 0)
		return gd_worker_fail(w, r, "%s", err.message);
	*ret_state = NULL;
	return loaded->setup ? loaded->setup(w, ret_state) : 0;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	return loaded->process(w, state, task);
}

static int process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	return loaded->process_batch(w, state, tasks, num_tasks);
}

static int cleanup(struct gd_worker *w, void *state)
{
	return loaded->cleanup ? loaded->cleanup(w, state) : 0;
}

/* Which hooks there are is asked before the fork, and once for a check and the run after it. */
static struct {
	char *path;
	struct plugin_facts facts;
	struct gd_worker_ops ops;
} last;

static int inspect(const char *path, struct gd_error *err)
{
	struct plugin_facts facts;
	int r = plugin_inspect(path, LOAD_MS, &facts, err);
	if (r < 0)
		return r;
	char *copy = strdup(path);
	if (!copy)
		return error_set(err, -ENOMEM, "no memory");
	free(last.path);
	last.path = copy;
	last.facts = facts;
	return 0;
}

int plugin_worker_check(const struct launch_worker *worker, struct gd_error *err)
{
	return inspect(worker->plugin, err);
}

const struct gd_worker_ops *plugin_worker_ops(const struct launch_worker *worker)
{
	if ((!last.path || strcmp(last.path, worker->plugin) != 0) && inspect(worker->plugin, NULL) < 0)
		last.facts = (struct plugin_facts){0}; /* then setup says why */
	last.ops = (struct gd_worker_ops){
		.size = sizeof(struct gd_worker_ops),
		.setup = setup,
		.process = last.facts.has_batch ? NULL : process,
		.process_batch = last.facts.has_batch ? process_batch : NULL,
		.max_batch = last.facts.max_batch,
		.cleanup = cleanup,
	};
	return &last.ops;
}
