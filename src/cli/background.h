/* SPDX-License-Identifier: MIT */
/*
 * A runner in the background: `gpuq run --linger` in a session of its own, which inherits no descriptor
 * but a pipe. Through the pipe it reports once that it is ready, or why it failed.
 */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include "cli/queue_choice.h"
#include "gpu_dispatch.h"

/*
 * How long to wait until the runner is ready. That can take seconds, where a driver must wake up
 * first. Commands such as `add` have done their work by then and wait for the shorter time only.
 */
#define BACKGROUND_READY_MS      15000
#define BACKGROUND_READY_SOON_MS 3000

/*
 * Starts a runner and waits at most timeout_ms until it is ready. dir_fd: the journal's folder, for its log. options:
 * further options for `gpuq run`, up to a NULL; or NULL. -errno, with the runner's own message, where the runner
 * failed; 0 where it is ready or not ready in time: what it meets later stands in its log.
 */
int background_start(
	const struct queue_choice *q, int dir_fd, const char *const *options, int timeout_ms, struct gd_error *err);

/* In that runner, once: reports that it is ready, or that it failed (err). Closes fd; -1: nobody waits. */
void background_tell(int fd, const struct gd_error *err);

#endif
