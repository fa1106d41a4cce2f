/* SPDX-License-Identifier: MIT */
/* Lines for people. A reader that is slow, or does not read at all, must not hold up the queue: lines wait in memory.
 */
#ifndef QUEUE_RUNNER_RUNNER_SAY_H
#define QUEUE_RUNNER_RUNNER_SAY_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct job;
struct runner;

void runner_say(struct runner *r, const char *format, ...) GD_PRINTF(2, 3);
/* One line about a job that has another state. */
void runner_tell(struct runner *r, const struct job *job);
/* wait: until all is written, or the reader is gone. */
void runner_flush_words(struct runner *r, bool wait);

#endif
