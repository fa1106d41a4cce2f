/* SPDX-License-Identifier: MIT */
#include "gpu_dispatch.h"

static const char *const failure_names[] = {
	[GD_FAILURE_NONE] = "none",
	[GD_FAILURE_ERROR] = "failed",
	[GD_FAILURE_CRASHED] = "crashed",
	[GD_FAILURE_OUT_OF_MEMORY] = "out of memory",
	[GD_FAILURE_TIMED_OUT] = "timed out",
	[GD_FAILURE_CANCELLED] = "cancelled",
	[GD_FAILURE_NO_WORKER] = "no worker",
	[GD_FAILURE_STUCK] = "stuck",
	[GD_FAILURE_NOT_CARRIED] = "not transferred",
};

static const char *const state_names[] = {
	[GD_WORKER_STATE_STARTING] = "starting",
	[GD_WORKER_STATE_IDLE] = "idle",
	[GD_WORKER_STATE_BUSY] = "busy",
	[GD_WORKER_STATE_ENDING] = "ending",
	[GD_WORKER_STATE_FINISHED] = "finished",
	[GD_WORKER_STATE_LOST] = "lost",
};

#define NAME_IN(table, i) ((size_t)(i) < sizeof(table) / sizeof((table)[0]) ? (table)[i] : "unknown")

const char *gd_failure_name(enum gd_failure failure)
{
	return NAME_IN(failure_names, failure);
}

const char *gd_worker_state_name(enum gd_worker_state state)
{
	return NAME_IN(state_names, state);
}

const char *gd_version(void)
{
	return GD_VERSION;
}
