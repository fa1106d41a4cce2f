/* SPDX-License-Identifier: MIT */
#include "launch/worker.h"

#include <errno.h>

#include "base/error.h"
#include "launch/worker_private.h"

/* Hooks have no context of their own: what they run for is inherited by the fork. */
static const struct launch_worker *current;

const struct launch_worker *launch_worker_current(void)
{
	return current;
}

int launch_worker_check(const struct launch_worker *worker, struct gd_error *err)
{
	switch (worker->kind) {
	case LAUNCH_TEMPLATE:
		if (!worker->argv || !worker->argv[0])
			return error_set(err, -EINVAL, "the command is empty");
		return template_worker_check(worker, err);
	case LAUNCH_PROGRAM:
		if (!worker->argv || !worker->argv[0])
			return error_set(err, -EINVAL, "the command of the worker is empty");
		return program_worker_check(worker, err);
	case LAUNCH_PLUGIN:
		if (!worker->plugin)
			break;
		return plugin_worker_check(worker, err);
	}
	return error_set(err, -EINVAL, "no worker was given");
}

const struct gd_worker_ops *launch_worker_ops(const struct launch_worker *worker)
{
	current = worker;
	switch (worker->kind) {
	case LAUNCH_TEMPLATE:
		return &template_worker_ops;
	case LAUNCH_PROGRAM:
		return &program_worker_ops;
	case LAUNCH_PLUGIN:
		return plugin_worker_ops(worker);
	}
	return NULL;
}
