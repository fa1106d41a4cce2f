/* SPDX-License-Identifier: MIT */
/* Whether the journal and its folder are still where this runner found them. */
#ifndef QUEUE_RUNNER_RUNNER_HOME_H
#define QUEUE_RUNNER_RUNNER_HOME_H

#include <stdbool.h>

struct runner;

/*
 * Called with each tick, and before jobs are started. Ends the run at once if runner.lock was removed: the
 * lock no longer shows that this queue has a runner, and another runner may start. Also ends it, with `moved`, if the
 * directory of the journal was renamed, and with an error if it has been missing for too long. False: the path of the
 * queue does not lead to it, so no job may be started.
 */
bool runner_home_check(struct runner *r);

#endif
