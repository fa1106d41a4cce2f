/* SPDX-License-Identifier: MIT */
/* Whether the journal and its folder are still where this runner found them. */
#ifndef QUEUE_RUNNER_RUNNER_HOME_H
#define QUEUE_RUNNER_RUNNER_HOME_H

struct runner;

/*
 * Called with each tick. Ends the run if runner.lock was removed, at once: from then on the lock shows nobody that this
 * queue has a runner, and another one may begin. Also if the folder has been renamed for too long.
 */
void runner_home_check(struct runner *r);

#endif
