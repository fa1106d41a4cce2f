/* SPDX-License-Identifier: MIT */
/* gpuq run on this machine. */
#include <errno.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/debug.h"
#include "cli/run_panel.h"
#include "cli/run_parts.h"
#include "queue/runner/published.h"

static void fill_options(struct run *run, struct runner_options *o)
{
	const struct config *c = &run->queue.config;
	*o = (struct runner_options){.gpus = c->gpus,
		.min_free_mem_mb = config_min_free_mem_mb(c),
		.poll_interval_ms = (int64_t)c->poll_interval_ms,
		.linger_ms = c->keep ? -1 : (int64_t)run->linger_ms,
		.jobs_per_gpu = (int)c->jobs_per_gpu,
		.cpu_affinity = c->cpu_affinity,
		.max_failures = (int)c->max_failures,
		.so_far = run->so_far,
		.order = run_order_defaults(run),
		.on_finish = c->on_finish,
		.on_idle = c->on_idle,
		.idle_warn_ms = (int64_t)c->idle_warn_ms,
		.quiet = run->quiet,
		.verbose = debug_is_on(),
		.on_ready = run_on_ready,
		.context = run,
		.out = run_out(run)};
}

static int create(struct run *run, struct journal *j, void **ret, pid_t *ret_holder)
{
	struct runner_options o;
	/* This runner was started by `gpuq add`: jobs of the cluster must not run here, on a login node, unless
	 * requested. */
	if (run->linger_ms && published_is_cluster(j->dir_fd))
		return error_set(&run->err, -EREMOTE,
			"the queue was last run on a cluster; use 'gpuq run --slurm' again, or put the --slurm options into gpuq.yaml; 'gpuq run' without them runs the queue on this machine");
	fill_options(run, &o);
	run->so_far.moved = false; /* the runner owns the lock now */
	return runner_create(j, &o, (struct runner **)ret, ret_holder, &run->err);
}

/* Shows a panel below the lines if they go to a terminal. */
static int run_shown(struct run *run, void *engine, struct runner_result *ret)
{
	struct runner *runner = engine;
	struct run_panel *panel =
		run->no_panel || run->linger_ms ? NULL : run_panel_create(run_out(run), run->quiet, &run->queue);
	runner_set_watch(runner, run_panel_watch(panel));
	int r = runner_run(runner, ret, &run->err);
	run_panel_destroy(panel);
	return r;
}

static void destroy(void *engine)
{
	runner_destroy(engine);
}

static int main_run(int argc, char **argv)
{
	static const struct run_engine engine = {create, run_shown, destroy, false};
	return run_main(argc, argv, &engine);
}

const struct command cmd_run = {"run", "Run the commands of a file, and all queued jobs", main_run};
