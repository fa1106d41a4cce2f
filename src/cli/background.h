/* SPDX-License-Identifier: MIT */
/*
 * A runner in the background: `gpuq run --linger` in its own session, which inherits no descriptor
 * except a pipe. Through the pipe it reports once that it is ready, or why it failed.
 */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include "cli/queue_choice.h"
#include "gpu_dispatch.h"

/*
 * How long to wait until the runner is ready. That can take seconds if a driver must wake up
 * first. Commands such as `add` have already done their work and use the shorter time.
 */
#define BACKGROUND_READY_MS      15000
#define BACKGROUND_READY_SOON_MS 3000

/* Whether a runner of the queue is active. dir_fd: the journal's folder, here and below. */
bool background_has_runner(int dir_fd);

/*
 * For commands that need a runner, before they change the queue: whether one is active or can be started here. No
 * runner is started inside a worker of a pool, because the pool kills all processes that the worker leaves behind, or
 * with a configuration that is a descriptor of this process.
 */
int background_check(const struct queue_choice *q, int dir_fd, struct gd_error *err);

/*
 * Starts a runner, unless one is active, and waits at most timeout_ms until it is ready. options: further options for
 * `gpuq run`, up to a NULL; the runner then reads the configuration of the current directory. NULL: it reads that of
 * the journal's directory, unless q names a configuration. -errno, with the runner's own message, if the runner failed;
 * 0 if it is ready or not ready in time: later errors are in its log.
 */
int background_start(
	const struct queue_choice *q, int dir_fd, const char *const *options, int timeout_ms, struct gd_error *err);

/* For commands that print messages, before background_start(): names the settings of ./gpuq.yaml that the runner does
 * not read. */
void background_say_unused(const struct queue_choice *q);

/* Called once in the started runner: reports that it is ready, or failed (err). Closes fd; -1: no process waits. */
void background_tell(int fd, const struct gd_error *err);

#endif
