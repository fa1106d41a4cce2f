/* SPDX-License-Identifier: MIT */
/* runner.lock: held by the process that runs the queue, a runner or a coordinator on a cluster, as long as it lives. */
#ifndef QUEUE_RUNNER_RUNNER_LOCK_H
#define QUEUE_RUNNER_RUNNER_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/machine.h"
#include "gpu_dispatch.h"

struct journal;

/* LOCK_BLOCKED: see base/lock.h. -EBUSY, without a message: *ret_holder holds the lock, -1 if that process has no PID
 * here. */
int runner_lock_take(
	const struct journal *j, const struct machine *here, int *ret_fd, pid_t *ret_holder, struct gd_error *err);

/* Whether fd is still the runner.lock of this journal; if so, writes the identity of this process again. */
bool runner_lock_keep(const struct journal *j, const struct machine *here, int fd);

#endif
