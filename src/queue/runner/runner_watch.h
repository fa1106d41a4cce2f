/* SPDX-License-Identifier: MIT */
/* Calls the observer set by runner_set_watch(), if any. */
#ifndef QUEUE_RUNNER_RUNNER_WATCH_H
#define QUEUE_RUNNER_RUNNER_WATCH_H

#include <stdbool.h>

struct job;
struct runner;

int runner_watch_begin(struct runner *r);
/* False: no observer wants state changes. */
bool runner_watch_changed(struct runner *r, const struct job *job, int old_state);
void runner_watch_end(struct runner *r);

#endif
