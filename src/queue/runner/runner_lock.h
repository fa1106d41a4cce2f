/* SPDX-License-Identifier: MIT */
/* runner.lock: held by the process that runs the queue as long as it lives, a runner or a coordinator on a cluster. */
#ifndef QUEUE_RUNNER_RUNNER_LOCK_H
#define QUEUE_RUNNER_RUNNER_LOCK_H

#include <sys/types.h>

#include "base/machine.h"
#include "gpu_dispatch.h"

struct journal;

/* -EBUSY, without words: *ret_holder has it, -1 if that process has no number here. */
int runner_lock_take(
	const struct journal *j, const struct machine *here, int *ret_fd, pid_t *ret_holder, struct gd_error *err);

#endif
