/* SPDX-License-Identifier: MIT */
/* Candidates from the queue that the command line chooses: jobs, names, tags, GPUs. */
#ifndef CLI_COMPLETE_QUEUE_H
#define CLI_COMPLETE_QUEUE_H

#include "cli/complete_line.h"
#include "cli/complete_offer.h"

/* Candidates for `ID`: ids, names, groups, tags. states: bits of enum job_state; 0: all. */
void complete_queue_jobs(const struct complete_line *l, unsigned states, struct complete_offer *o);
void complete_queue_names(const struct complete_line *l, struct complete_offer *o);
void complete_queue_tags(const struct complete_line *l, struct complete_offer *o);
/* GPUs of the runner, or of the settings. */
void complete_queue_gpus(const struct complete_line *l, struct complete_offer *o);

#endif
