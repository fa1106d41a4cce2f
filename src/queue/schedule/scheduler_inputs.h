/* SPDX-License-Identifier: MIT */
/*
 * What a scheduler knows besides the jobs of the journal, as text: settings, GPUs, their holders,
 * claims, the reservation. A process that loads it into its own scheduler, and adds the waiting jobs
 * of the same journal, gets the same decisions. One JSON object.
 */
#ifndef QUEUE_SCHEDULE_SCHEDULER_INPUTS_H
#define QUEUE_SCHEDULE_SCHEDULER_INPUTS_H

#include "base/json_read.h"
#include "queue/schedule/scheduler.h"

/* Appends the object under this key, or without a key (NULL) as an array item or a text of its own. Check
 * text_error(). */
void scheduler_inputs_write(const struct scheduler *s, const char *key, struct text *t);

/*
 * Reads into a scheduler without GPUs. The text comes from another process: -EBADMSG if it is invalid,
 * or has more than 4096 GPUs or nodes.
 */
int scheduler_inputs_read(struct scheduler *s, const struct json_value *object);

#endif
