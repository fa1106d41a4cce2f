/* SPDX-License-Identifier: MIT */
/* Whether the journal and its folder are still where this runner found them. */
#ifndef QUEUE_RUNNER_RUNNER_HOME_H
#define QUEUE_RUNNER_RUNNER_HOME_H

struct runner;

/*
 * Called with each tick. Ends the run at once if runner.lock was removed: the lock no longer shows
 * that this queue has a runner, and another runner may start. Also ends it if the directory of
 * the journal has been missing (removed or renamed) for too long.
 */
void runner_home_check(struct runner *r);

#endif
