/* SPDX-License-Identifier: MIT */
/* Output lines for users. A reader that is slow, or does not read at all, must not delay the queue: lines are buffered
 * in memory. */
#ifndef QUEUE_RUNNER_RUNNER_SAY_H
#define QUEUE_RUNNER_RUNNER_SAY_H

#include <stdbool.h>

#include "gpu_dispatch.h"

struct job;
struct runner;

void runner_say(struct runner *r, const char *format, ...) GD_PRINTF(2, 3);
/* One line about a job whose state changed. */
void runner_tell(struct runner *r, const struct job *job);
/* wait: until everything is written, or the reader is gone. */
void runner_flush_words(struct runner *r, bool wait);

#endif
